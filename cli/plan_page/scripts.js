@include page/plan_data.js
@include page/colours.js
@include page/boxes.js
@include page/chart.js
@include page/panels.js
@include page/search.js
@include page/page.js
