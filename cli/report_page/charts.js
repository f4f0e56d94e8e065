// Small charts: the seeds of a task over time with the mean of their labels, and a table's times on the axis of all.

const SHADES = {train: "var(--train)", val: "var(--val)", test: "var(--test)"};

function timeChart(task) {
  const bins = task.over_time;
  const width = 400, height = 84, bottom = 2, top = 10, left = 2;
  const chart = svg("svg", {class: "chart", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img",
                            "aria-label": "Seeds over time, by split, and the mean of their labels"});
  const most = Math.max(1, ...bins.map((bin) => bin.seeds.reduce((a, b) => a + b)));
  const step = (width - 2 * left) / bins.length;
  const drawing = height - bottom - top;
  bins.forEach((bin, number) => {
    let y = height - bottom;
    SPLITS.forEach((split, place) => {
      const tall = drawing * bin.seeds[place] / most;
      if (tall <= 0) return;
      y -= tall;
      const bar = svg("rect", {x: left + number * step + .6, y, width: Math.max(1, step - 1.2), height: tall, fill: SHADES[split]});
      bar.dataset.tip = `from ${day(bin.from)}: ${count(bin.seeds[place], split + " seed")}` +
                        (bin.mean === undefined ? "" : `, ${meanText(task, bin.mean)}`);
      chart.append(bar);
    });
  });
  chart.append(svg("line", {class: "axis", x1: left, x2: width - left, y1: height - bottom, y2: height - bottom}));
  chart.append(meanLine(task, bins, {left, step, top, drawing}));
  return chart;
}

function meanText(task, mean) {
  if (task.stype === "boolean") return `${percent(mean)} true`;
  if (task.stype === "categorical") return `${shortened(task.classes[0].name)}: ${percent(mean)}`;
  return `mean ${figure(mean)}`;
}

function meanLine(task, bins, {left, step, top, drawing}) {
  const group = svg("g", {});
  const known = bins.filter((bin) => bin.mean !== undefined).map((bin) => bin.mean);
  if (known.length === 0 || task.stype === "timestamp") return group;
  const isShare = task.stype === "boolean" || task.stype === "categorical";
  const low = isShare ? 0 : Math.min(...known), high = isShare ? 1 : Math.max(...known);
  const y = (mean) => top + drawing * (high === low ? .5 : 1 - (mean - low) / (high - low));
  let path = "", isOn = false;
  bins.forEach((bin, number) => {
    if (bin.mean === undefined) {
      isOn = false;
      return;
    }
    path += `${isOn ? "L" : "M"}${(left + (number + .5) * step).toFixed(1)} ${y(bin.mean).toFixed(1)}`;
    if (!isOn) path += "h.01"; // a dot, where nothing follows
    isOn = true;
  });
  group.append(svg("path", {class: "mean", d: path, "vector-effect": "non-scaling-stroke"}));
  return group;
}

// The range of a table's times on the axis of all tables' times; the middle 98 % are darker.
function spanChart(table) {
  const first = micros(report.first), last = micros(report.last);
  const place = (text) => last === first ? 0 : Math.min(100, Math.max(0, 100 * (micros(text) - first) / (last - first)));
  const chart = svg("svg", {class: "span", viewBox: "0 0 100 14", preserveAspectRatio: "none", role: "img",
                            "aria-label": `${table.first} to ${table.last}`});
  const bar = (name, from, to) => svg("rect", {class: name, x: from, y: name === "lane" ? 5 : 3, width: Math.max(.7, to - from), height: name === "lane" ? 4 : 8, rx: .4});
  chart.append(bar("lane", 0, 100), bar("all", place(table.first), place(table.last)), bar("most", place(table.early), place(table.late)));
  return chart;
}
