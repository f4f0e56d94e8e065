// Times against the cutoff: a dot a row, where its time lies; rows that were always there stand at the left. Right of
// the line is what the model must not see: diamonds are cells that are in the sequence, but null until then. What lies
// beyond the end of the axis is not drawn on it: the right gutter says how much that is.

const times = document.getElementById("times");
const GUTTER_LEFT = 118, GUTTER_RIGHT = 26, GUTTER_BEYOND = 132, AXIS_FROM_BOTTOM = 24, DOT = 4.2;
const MINUTE = 60, HOUR = 3600, DAY = 86400, YEAR = 31557600;
const TICK_STEPS = [1, 10, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 2 * DAY, 7 * DAY, 30 * DAY, 91 * DAY, YEAR / 2, YEAR, 2 * YEAR,
                    5 * YEAR, 10 * YEAR, 50 * YEAR, 200 * YEAR, 1000 * YEAR];

function timesOf(sequence) {
  const rows = [], late = [];
  sequence.rows.forEach((row, number) => {
    if (row.time !== null) rows.push({number, at: row.time[1]});
    row.cells.forEach((cell, index) => {
      if (cell[0] === LATE && cell[3] && cell[3][1] !== null) late.push({number, index, at: cell[3][1]});
    });
  });
  return {rows, late};
}

// The span that is drawn: all rows and the cutoff, and of what comes later no more than a third of the width.
function spanOf(sequence, found) {
  const seen = cutoff(sequence);
  const known = found.rows.map((entry) => entry.at).filter((at) => seen === null || at <= seen);
  if (seen !== null) known.push(seen);
  if (!known.length) return null;
  let first = Math.min(...known), last = Math.max(...known);
  if (last - first < 3600) first = last - 3600;
  const later = [...found.rows, ...found.late].map((entry) => entry.at).filter((at) => at > last);
  const length = last - first;
  if (seen !== null) last += Math.min(length / 2, Math.max(length / 6, ...later.map((at) => (at - seen) * 1.05)));
  return {first: first - length * 0.02, last};
}

function drawTimeline(sequence) {
  const width = times.clientWidth, height = times.clientHeight;
  const found = timesOf(sequence), span = spanOf(sequence, found), seen = cutoff(sequence);
  const axis = height - AXIS_FROM_BOTTOM;
  times.replaceChildren();
  times.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const always = sequence.rows.filter((row) => row.time === null).length;
  times.append(svg("text", {class: "gutter-label", x: 14, y: axis - 22}, count(always, "row")));
  times.append(svg("text", {class: "gutter-label", x: 14, y: axis - 7}, "always there"));
  times.append(svg("line", {class: "axis", x1: GUTTER_LEFT, x2: width, y1: axis, y2: axis}));
  if (span === null) return;
  const isBeyond = (entry) => entry.at > span.last;
  const beyond = [...found.rows, ...found.late].filter(isBeyond);
  const right = width - (beyond.length ? GUTTER_BEYOND : GUTTER_RIGHT);
  const place = (at) => GUTTER_LEFT + (at - span.first) / (span.last - span.first) * (right - GUTTER_LEFT);
  if (seen !== null) times.append(svg("rect", {class: "future", x: place(seen), y: 0, width: Math.max(0, width - place(seen)), height}));
  drawTicks(span, place, axis, width);
  if (beyond.length) drawBeyond(beyond, found, right, width, axis);
  const drawn = stacked(found.late.filter((entry) => !isBeyond(entry)), place, axis);
  for (const {entry, x, y} of drawn) {
    const mark = svg("path", {class: "late-mark", d: `M${x} ${y - DOT}l${DOT} ${DOT} ${-DOT} ${DOT} ${-DOT} ${-DOT}z`});
    mark.dataset.row = entry.number;
    mark.dataset.cell = entry.index;
    times.append(mark);
  }
  for (const {entry, x, y} of stacked(found.rows.filter((entry) => !isBeyond(entry)), place, axis)) {
    const dot = svg("circle", {class: entry.number === 0 ? "dot is-anchor" : "dot", cx: x, cy: y, r: DOT,
                               style: `fill:hsl(${hueOf(sequence.rows[entry.number].table)} 55% var(--tone))`});
    dot.dataset.row = entry.number;
    times.append(dot);
  }
  if (seen !== null) drawCutoff(sequence, place(seen), axis, right);
}

// How many rows and cells come after the end of the axis, and when the last of them does.
function drawBeyond(beyond, found, right, width, axis) {
  const rows = found.rows.filter((entry) => beyond.includes(entry)).length, cells = beyond.length - rows;
  const what = [rows ? count(rows, "row") : "", cells ? count(cells, "cell") : ""].filter(Boolean).join(", ");
  const last = new Date(Math.max(...beyond.map((entry) => entry.at)) * 1000);
  const x = width - 12;
  times.append(svg("line", {class: "axis", x1: right + 6, x2: right + 6, y1: 8, y2: axis, "stroke-dasharray": "3 3"}));
  times.append(svg("text", {class: "gutter-label beyond", x, y: axis - 37, "text-anchor": "end"}, what));
  times.append(svg("text", {class: "gutter-label beyond", x, y: axis - 22, "text-anchor": "end"}, "later than this →"));
  if (!Number.isNaN(last.getTime()))
    times.append(svg("text", {class: "gutter-label beyond", x, y: axis - 7, "text-anchor": "end"}, `up to ${last.toISOString().split("T")[0]}`));
}

// Dots that would cover each other stand above each other, as far as there is room.
function stacked(entries, place, axis) {
  const levels = Math.floor((axis - 24) / (2 * DOT + 1));
  const ends = new Array(levels).fill(-Infinity);
  return [...entries].sort((a, b) => a.at - b.at).map((entry) => {
    const x = place(entry.at);
    let level = ends.findIndex((end) => end < x - 2 * DOT);
    if (level < 0) level = ends.indexOf(Math.min(...ends));
    ends[level] = x;
    return {entry, x, y: axis - 8 - level * (2 * DOT + 1)};
  });
}

function drawTicks(span, place, axis, width) {
  const pixels = place(span.last) - place(span.first);
  const step = TICK_STEPS.find((s) => (span.last - span.first) / s <= pixels / 120) ?? TICK_STEPS.at(-1);
  for (let at = Math.ceil(span.first / step) * step; at <= span.last; at += step) {
    const x = place(at), date = new Date(at * 1000);
    if (Number.isNaN(date.getTime())) continue;
    const text = date.toISOString().slice(0, step >= DAY ? 10 : step >= MINUTE ? 16 : 19).replace("T", " ");
    times.append(svg("line", {class: "axis", x1: x, x2: x, y1: axis, y2: axis + 4}));
    const label = svg("text", {class: "tick", x, y: axis + 16, "text-anchor": "middle"}, text);
    times.append(label);
    const half = label.getComputedTextLength() / 2;
    label.setAttribute("x", Math.max(half + 4, Math.min(x, width - half - 4)));
  }
}

function drawCutoff(sequence, x, axis, right) {
  times.append(svg("line", {class: "cutoff", x1: x, x2: x, y1: 0, y2: axis}));
  const isLeft = x > right * 0.6;
  times.append(svg("text", {class: "cutoff-label", x: x + (isLeft ? -8 : 8), y: 15, "text-anchor": isLeft ? "end" : "start"},
                   `observed ${cutoffText(sequence)}`));
  if (right - x > 80) times.append(svg("text", {class: "tick", x: x + 8, y: isLeft ? 15 : 29}, "not known yet"));
}
