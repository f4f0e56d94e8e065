@include svg.js
@include page/report_data.js
@include page/charts.js
@include page/page.js
