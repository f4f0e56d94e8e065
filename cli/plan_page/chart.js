// The two charts: the map (boxes below, axes, lines and labels on a transparent canvas above) and the curve of live
// bytes, which shares the map's time axis. `state` is page.js's; nothing here changes it.

const FINE_PIXELS_MAX = 3000000;
const COARSE_PIXELS_MAX = 400000;
const TICKS_MAX = 200;
const LEAST_GUTTER = 78;
const GUTTER_STEP = 16;
const GUTTER = {left: LEAST_GUTTER, // wider while the labels of the byte axis are long
                 right: 14, top: 12, bottom: 26};
const MONO = '11px ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';
const TEXT = '11.5px ui-sans-serif, system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif';

const boxesCanvas = document.getElementById("boxes");
const overlayCanvas = document.getElementById("overlay");
const curveCanvas = document.getElementById("curve");
let boxesImage = null;
let boxesAreCoarse = false;
let labelWidth = 6.6;

function pixelRatio() {
  return Math.min(window.devicePixelRatio || 1, 2);
}

// The map's inner rectangle in CSS pixels.
function plotSize() {
  const area = document.getElementById("map");
  return {width: Math.max(area.clientWidth - GUTTER.left - GUTTER.right, 20),
          height: Math.max(area.clientHeight - GUTTER.top - GUTTER.bottom, 20)};
}

// Boxes are drawn pixel by pixel: never too many of them, and fewer while the view moves on a slow machine.
function boxesRatio(plot) {
  const most = boxesAreCoarse ? COARSE_PIXELS_MAX : FINE_PIXELS_MAX;
  return Math.min(pixelRatio(), Math.sqrt(most / (plot.width * plot.height)));
}

function resizeBoxes() {
  const plot = plotSize();
  resizeCanvas(boxesCanvas, plot.width, plot.height, boxesRatio(plot));
  boxesImage = new ImageData(boxesCanvas.width, boxesCanvas.height);
}

function setBoxesDetail(isCoarse) {
  if (boxesAreCoarse === isCoarse) return;
  boxesAreCoarse = isCoarse;
  resizeBoxes();
}

function resizeCanvas(canvas, width, height, ratio = pixelRatio()) {
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
}

function resizeCharts() {
  const area = document.getElementById("map");
  const live = document.getElementById("live");
  resizeCanvas(overlayCanvas, area.clientWidth, area.clientHeight);
  resizeBoxes();
  boxesCanvas.style.left = GUTTER.left + "px";
  boxesCanvas.style.top = GUTTER.top + "px";
  resizeCanvas(curveCanvas, live.clientWidth, live.clientHeight);
}

function clearedContext(canvas) {
  const context = canvas.getContext("2d");
  const ratio = pixelRatio();
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, canvas.width / ratio, canvas.height / ratio);
  return context;
}

function timeToX(view, plot, position) {
  return GUTTER.left + (position - view.t0) / (view.t1 - view.t0) * plot.width;
}

function byteToY(view, plot, address) {
  return GUTTER.top + plot.height - (address - view.b0) / (view.b1 - view.b0) * plot.height;
}

// ---- Ticks ------------------------------------------------------------------------------------------------

// The smallest step of 1, 2, 5 times a power of ten (or a power of two, for bytes) that is at least `least`.
function decimalStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  for (const factor of [1, 2, 5, 10]) if (factor * power >= least) return factor * power;
  return 10 * power;
}

function binaryStep(least) {
  return 2 ** Math.max(0, Math.ceil(Math.log2(least)));
}

function ticks(low, high, step) {
  const found = [];
  const first = Math.max(0, Math.ceil(low / step)) * step;
  for (let at = first; at <= high && found.length < TICKS_MAX; at += step) found.push(at);
  return found;
}

// A tick's text, exact, in the largest unit that needs no more than three decimals: 1.5 MiB, 1.75 MiB, and deep in
// 130 GiB 133,979.125 MiB, so that neighbours are told apart.
function byteTick(value, step) {
  if (value === 0) return "0";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  const largest = Math.min(Math.floor(Math.log2(value) / 10), units.length - 1);
  const unit = Math.max(0, Math.min(largest, Math.floor((Math.log2(step) + 3) / 10)));
  const digits = Math.max(0, Math.ceil(10 * unit - Math.log2(step)));
  return (value / 1024 ** unit).toLocaleString("en", {minimumFractionDigits: digits, maximumFractionDigits: digits}) + " " + units[unit];
}

function byteAxisStep(view, plot) {
  return binaryStep((view.b1 - view.b0) / (plot.height / 52));
}

// Makes room for the longest label of the byte axis; true if the room changed.
function fitGutter(view) {
  const context = overlayCanvas.getContext("2d");
  const step = byteAxisStep(view, plotSize());
  context.font = TEXT;
  const widest = Math.max(0, ...ticks(view.b0, view.b1, step).map((address) => context.measureText(byteTick(address, step)).width));
  const wanted = Math.max(LEAST_GUTTER, Math.ceil((widest + 14) / GUTTER_STEP) * GUTTER_STEP);
  if (wanted === GUTTER.left) return false;
  GUTTER.left = wanted;
  return true;
}

function drawTimeAxis(context, view, plot, bottom) {
  const step = decimalStep(Math.max(1, (view.t1 - view.t0) / (plot.width / 90)));
  context.font = TEXT;
  context.textBaseline = "top";
  context.textAlign = "center";
  for (const position of ticks(view.t0, Math.min(view.t1, endOfTime), step)) {
    const x = Math.round(timeToX(view, plot, position)) + 0.5;
    if (x < GUTTER.left || x > GUTTER.left + plot.width) continue;
    context.fillStyle = cssColour("--line");
    context.fillRect(x - 0.5, bottom, 1, 4);
    context.fillStyle = cssColour("--soft");
    const text = whole(position);
    const right = GUTTER.left + plot.width + GUTTER.right - 4 - context.measureText(text).width / 2;
    context.fillText(text, Math.min(x, right), bottom + 7);
  }
}

function drawByteAxis(context, view, plot) {
  const step = byteAxisStep(view, plot);
  context.font = TEXT;
  context.textBaseline = "middle";
  context.textAlign = "right";
  const texts = [];
  let leftmost = GUTTER.left;
  for (const address of ticks(view.b0, view.b1, step)) {
    const y = Math.round(byteToY(view, plot, address)) + 0.5;
    if (y < GUTTER.top - 1 || y > GUTTER.top + plot.height + 1) continue;
    context.fillStyle = cssColour("--line");
    context.fillRect(GUTTER.left - 4, y - 0.5, 4, 1);
    context.fillStyle = cssColour("--soft");
    const text = byteTick(address, step);
    context.fillText(text, GUTTER.left - 8, y);
    texts.push(text);
    leftmost = Math.min(leftmost, GUTTER.left - 8 - context.measureText(text).width);
  }
  overlayCanvas.dataset.byteLabels = texts.join("|");
  overlayCanvas.dataset.leftmostLabel = leftmost;
}

// ---- The map ----------------------------------------------------------------------------------------------

function drawMapBoxes(state, model, offset, colours) {
  const ground = packed(hexToRgb(cssColour("--arena")));
  const paper = packed(hexToRgb(cssColour("--paper")));
  clearGround(boxesImage, state.view, shownExtent(state, model), ground, paper);
  const labelled = drawBoxes(boxesImage, model, offset, colours, state.view, boxesRatio(plotSize()), state.isMatch);
  boxesCanvas.getContext("2d").putImageData(boxesImage, 0, 0);
  return labelled;
}

function shownExtent(state, model) {
  return model.peak + (model.slotBytes - model.peak) * state.slotShare;
}

function shortened(name, room) {
  if (name.length <= room) return name;
  const tail = Math.floor((room - 1) * 0.6);
  return name.slice(0, room - 1 - tail) + "…" + name.slice(name.length - tail);
}

function drawLabels(context, model, colours, labelled) {
  const ratio = boxesRatio(plotSize());
  context.font = MONO;
  context.textBaseline = "middle";
  context.textAlign = "left";
  for (const box of labelled) {
    const room = Math.floor(((box.x1 - box.x0) / ratio - 9) / labelWidth);
    if (room < 5) continue;
    const middle = (box.y0 + box.y1) / 2 / ratio + GUTTER.top + 0.5;
    const tensor = model.member[box.k];
    context.fillStyle = colours.isLight[box.k] ? "rgba(12,16,22,.88)" : "rgba(255,255,255,.95)";
    const isTall = (box.y1 - box.y0) / ratio >= 34;
    const x = box.x0 / ratio + GUTTER.left + 5;
    const size = formatBytes(Number(tensors.size[tensor]));
    const hasSize = isTall && size.length <= room;
    context.fillText(shortened(tensors.ids[tensor], room), x, hasSize ? middle - 7 : middle);
    if (!hasSize) continue;
    context.globalAlpha = 0.72;
    context.fillText(size, x, middle + 8);
    context.globalAlpha = 1;
  }
}

function drawOutline(context, state, model, offset, tensor, colour, width) {
  const k = tensor < 0 ? -1 : placeInModel(model, tensor);
  if (k < 0) return;
  const plot = plotSize();
  const x0 = timeToX(state.view, plot, model.birth[k]);
  const x1 = timeToX(state.view, plot, model.death[k]);
  const y0 = byteToY(state.view, plot, offset[k] + model.height[k]);
  const y1 = byteToY(state.view, plot, offset[k]);
  context.strokeStyle = cssColour("--paper");
  context.lineWidth = width + 2;
  context.strokeRect(x0, y0, Math.max(x1 - x0, 2), Math.max(y1 - y0, 2));
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.strokeRect(x0, y0, Math.max(x1 - x0, 2), Math.max(y1 - y0, 2));
}

function drawTag(context, text, x, y, colour, align) {
  context.font = TEXT;
  context.textBaseline = "middle";
  context.textAlign = "left";
  const width = context.measureText(text).width + 12;
  const left = align === "right" ? x - width : align === "centre" ? x - width / 2 : x;
  context.fillStyle = cssColour("--paper");
  context.beginPath();
  context.roundRect(left, y - 9, width, 18, 4);
  context.fill();
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.stroke();
  context.fillStyle = colour;
  context.fillText(text, left + 6, y + 0.5);
}

// What is worth a line across the map: [address, text, colour, side of its tag, dashes].
function levels(state, model) {
  if (model.peak === 0) return [];
  const bound = cssColour("--bound");
  const mark = cssColour("--mark");
  const found = [];
  if (model.capacity !== null)
    found.push([model.capacity, `capacity ${formatBytes(model.capacity)}`, cssColour("--limit"), "centre", []]);
  if (plan.remat && model.capacity !== null && model.budget < model.capacity)
    found.push([model.budget, `budget of live bytes ${formatBytes(model.budget)}`, cssColour("--limit"), "centre", [2, 3]]);
  if (state.slotShare > 0.5)
    found.push([model.slotBytes, `slots ${formatBytes(model.slotBytes)}`, mark, "right", []]);
  else if (model.peak !== model.lowerBound)
    found.push([model.peak, `peak ${formatBytes(model.peak)}`, mark, "right", []]);
  const text = model.peak === model.lowerBound ? "packed peak = lower bound" : "lower bound";
  found.push([model.lowerBound, `${text} ${formatBytes(model.lowerBound)}`, bound, "left", [6, 4]]);
  return found;
}

function drawLevels(context, state, model) {
  const plot = plotSize();
  const sides = {left: GUTTER.left + 8, centre: GUTTER.left + plot.width / 2, right: GUTTER.left + plot.width - 8};
  const shown = levels(state, model).map((level) => [byteToY(state.view, plot, level[0]), ...level])
    .filter(([y]) => y >= GUTTER.top - 1 && y <= GUTTER.top + plot.height);
  for (const [y, , , colour, , dashes] of shown) {
    context.strokeStyle = colour;
    context.lineWidth = 1.5;
    context.setLineDash(dashes);
    context.beginPath();
    context.moveTo(GUTTER.left, y);
    context.lineTo(GUTTER.left + plot.width, y);
    context.stroke();
  }
  context.setLineDash([]);
  for (const [y, , text, colour, side] of shown)
    drawTag(context, text, sides[side], Math.max(y, GUTTER.top + 10), colour, side);
}

function drawTimeLine(context, view, plot, position, top, bottom, colour, dashes) {
  const x = Math.round(timeToX(view, plot, position + 0.5)) + 0.5;
  if (x < GUTTER.left || x > GUTTER.left + plot.width) return null;
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.setLineDash(dashes);
  context.beginPath();
  context.moveTo(x, top);
  context.lineTo(x, bottom);
  context.stroke();
  context.setLineDash([]);
  return x;
}

function clipToPlot(context, plot) {
  context.save();
  context.beginPath();
  context.rect(GUTTER.left, GUTTER.top, plot.width, plot.height);
  context.clip();
}

function drawOverlay(state, model, offset, colours, labelled) {
  const context = clearedContext(overlayCanvas);
  const plot = plotSize();
  const bottom = GUTTER.top + plot.height;
  context.font = MONO;
  labelWidth = context.measureText("0000000000").width / 10;
  clipToPlot(context, plot);
  drawLabels(context, model, colours, labelled);
  if (model.peak > 0)
    drawTimeLine(context, state.view, plot, model.peakPosition, GUTTER.top, bottom, cssColour("--mark"), [2, 3]);
  if (state.position !== null)
    drawTimeLine(context, state.view, plot, state.position, GUTTER.top, bottom, cssColour("--accent"), []);
  if (state.cursor !== null)
    drawTimeLine(context, state.view, plot, state.cursor, GUTTER.top, bottom, cssColour("--soft"), []);
  drawOutline(context, state, model, offset, state.hover, cssColour("--ink"), 1.5);
  drawOutline(context, state, model, offset, state.selected, cssColour("--mark"), 2.5);
  drawLevels(context, state, model);
  context.restore();
  drawByteAxis(context, state.view, plot);
  drawTimeAxis(context, state.view, plot, bottom);
  overlayCanvas.dataset.view = [state.view.t0, state.view.t1, state.view.b0, state.view.b1].join(" ");
  overlayCanvas.dataset.plot = [GUTTER.left, GUTTER.top, plot.width, plot.height].join(" ");
}

// ---- The curve of live bytes ------------------------------------------------------------------------------

// The largest value over the positions that fall into each pixel's column.
function columnMaxima(live, view, columns) {
  const maxima = new Float64Array(columns);
  const perColumn = (view.t1 - view.t0) / columns;
  for (let column = 0; column < columns; column++) {
    const first = Math.floor(view.t0 + column * perColumn);
    const last = Math.max(first, Math.ceil(view.t0 + (column + 1) * perColumn) - 1);
    for (let position = Math.max(first, 0); position <= last && position < live.length; position++)
      if (live[position] > maxima[column]) maxima[column] = live[position];
  }
  return maxima;
}

function drawCurveArea(context, maxima, plot, top, bottom, toY) {
  const width = plot.width / maxima.length;
  context.beginPath();
  context.moveTo(GUTTER.left, bottom);
  maxima.forEach((value, column) => {
    const y = toY(value);
    context.lineTo(GUTTER.left + column * width, y);
    context.lineTo(GUTTER.left + (column + 1) * width, y);
  });
  context.lineTo(GUTTER.left + plot.width, bottom);
  context.closePath();
  context.globalAlpha = 0.22;
  context.fillStyle = cssColour("--curve");
  context.fill();
  context.globalAlpha = 1;
  context.strokeStyle = cssColour("--curve");
  context.lineWidth = 1.5;
  context.stroke();
}

function drawCurve(state, model) {
  const context = clearedContext(curveCanvas);
  const plot = plotSize();
  const top = 24;
  const bottom = document.getElementById("live").clientHeight - 12;
  const highest = Math.max(model.lowerBound, 1);
  const toY = (bytes) => bottom - bytes / highest * (bottom - top);
  context.save();
  context.beginPath();
  context.rect(GUTTER.left, 0, plot.width, bottom + 1);
  context.clip();
  const maxima = columnMaxima(model.live, state.view, Math.max(1, Math.round(plot.width)));
  drawCurveArea(context, maxima, plot, top, bottom, toY);
  context.strokeStyle = cssColour("--bound");
  context.lineWidth = 1.5;
  context.setLineDash([6, 4]);
  context.beginPath();
  context.moveTo(GUTTER.left, toY(model.lowerBound));
  context.lineTo(GUTTER.left + plot.width, toY(model.lowerBound));
  context.stroke();
  context.setLineDash([]);
  if (state.position !== null)
    drawTimeLine(context, state.view, plot, state.position, top - 6, bottom, cssColour("--accent"), []);
  if (state.cursor !== null)
    drawTimeLine(context, state.view, plot, state.cursor, top - 6, bottom, cssColour("--soft"), []);
  drawPeak(context, state, model, plot, toY);
  context.restore();
  drawCurveAxis(context, highest, toY, top, bottom);
}

function drawPeak(context, state, model, plot, toY) {
  if (model.lowerBound <= 0) return;
  const mark = cssColour("--mark");
  const x = timeToX(state.view, plot, model.peakPosition + 0.5);
  if (x < GUTTER.left || x > GUTTER.left + plot.width) return;
  context.fillStyle = mark;
  context.beginPath();
  context.arc(x, toY(model.lowerBound), 4, 0, 2 * Math.PI);
  context.fill();
  const onRight = x < GUTTER.left + plot.width - 260;
  drawTag(context, `peak at position ${whole(model.peakPosition)}`, onRight ? x + 9 : x - 9, 11, mark,
          onRight ? "left" : "right");
}

function drawCurveAxis(context, highest, toY, top, bottom) {
  context.font = TEXT;
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.fillStyle = cssColour("--soft");
  context.fillText(formatBytes(highest), GUTTER.left - 8, toY(highest));
  context.fillText("0", GUTTER.left - 8, bottom);
  context.fillText("live bytes", GUTTER.left - 8, (top + bottom) / 2);
}
