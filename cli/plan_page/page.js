// The page's state and what changes it: pointer, wheel, keys, switches. Every change asks for one redraw at the next
// frame; boxes are drawn anew only where the view, the layout or the colours changed.

const state = {
  arena: 0,
  layout: "packed",
  slotShare: 0, // 0: packed, 1: slots; between them while the boxes move
  colouring: "lifetime",
  view: null,
  selected: -1, // tensors by their number in the plan
  hover: -1,
  cursor: null,   // the position under the pointer
  position: null, // whose live tensors the table lists; null: the peak
  rows: ROWS_AT_ONCE,
  found: null,
  isMatch: null,
};
const motion = matchMedia("(prefers-reduced-motion: reduce)");
const MOVE_MS = 240;
const SLOW_MS = 10;
const REST_MS = 160;

let model = null;
let offset = null; // of the boxes as they are shown
let colours = null;
let labelled = [];
let wanted = {boxes: false, overlay: false};
let frame = 0;
let move = null;
let lastInput = -Infinity;
let finest = {ms: 0, timer: 0}; // the last drawing at full resolution

// ---- Drawing ----------------------------------------------------------------------------------------------

function redraw(what) {
  wanted[what] = true;
  if (!frame) frame = requestAnimationFrame(draw);
}

function draw(now) {
  const started = performance.now();
  frame = 0;
  if (move) stepMove(now);
  if (fitGutter(state.view)) {
    resizeCharts();
    wanted.boxes = true;
  }
  if (wanted.boxes) drawAllBoxes();
  drawOverlay(state, model, offset, colours, labelled);
  drawCurve(state, model);
  wanted = {boxes: false, overlay: false};
  overlayCanvas.dataset.drawMs = (performance.now() - started).toFixed(2);
  if (move) redraw("boxes");
}

// Where a drawing takes too long for a fluid movement, a coarser one stands in until the movement rests.
function drawAllBoxes() {
  const started = performance.now();
  const isCoarse = finest.ms > SLOW_MS && performance.now() - lastInput < REST_MS;
  setBoxesDetail(isCoarse);
  labelled = drawMapBoxes(state, model, offset, colours);
  if (!isCoarse) finest.ms = performance.now() - started;
  clearTimeout(finest.timer);
  if (isCoarse) finest.timer = setTimeout(() => redraw("boxes"), REST_MS + 20);
}

function placeBoxes() {
  if (state.slotShare === 0) {
    offset = model.packedOffset;
  } else if (state.slotShare === 1) {
    offset = model.slotOffset;
  } else {
    offset = new Float64Array(model.count);
    for (let k = 0; k < model.count; k++)
      offset[k] = model.packedOffset[k] + (model.slotOffset[k] - model.packedOffset[k]) * state.slotShare;
  }
}

// ---- The view ---------------------------------------------------------------------------------------------

function layoutExtent() {
  return Math.max(state.layout === "slots" ? model.slotBytes : model.peak, 1);
}

function fitView() {
  const extent = layoutExtent();
  const margin = endOfTime * 0.006;
  return {t0: -margin, t1: endOfTime + margin, b0: -extent * 0.006, b1: extent * 1.05};
}

// Keeps spans sensible and the view near the data.
function bounded(view) {
  const most = fitView();
  const spanT = Math.min(Math.max(view.t1 - view.t0, 2), 1.5 * (most.t1 - most.t0));
  const spanB = Math.min(Math.max(view.b1 - view.b0, 16), 1.5 * (most.b1 - most.b0));
  const slackT = spanT * 0.5;
  const slackB = spanB * 0.5;
  const t0 = Math.min(Math.max(view.t0, -slackT), endOfTime - spanT + slackT);
  const b0 = Math.min(Math.max(view.b0, -slackB), layoutExtent() - spanB + slackB);
  return {t0, t1: t0 + spanT, b0, b1: b0 + spanB};
}

function setView(view) {
  move = null;
  lastInput = performance.now();
  state.view = bounded(view);
  redraw("boxes");
}

// Glides to a view and a layout; at once for those who ask for less motion.
function moveTo(view, slotShare) {
  move = {from: state.view, to: view, fromShare: state.slotShare, toShare: slotShare, began: -1};
  if (motion.matches || !state.view) move.began = -Infinity;
  redraw("boxes");
}

function stepMove(now) {
  lastInput = now;
  if (move.began === -1) move.began = now;
  const linear = Math.min((now - move.began) / MOVE_MS, 1);
  const share = linear === 1 ? 1 : 1 - (1 - linear) ** 3;
  const between = (key) => move.from[key] + (move.to[key] - move.from[key]) * share;
  state.view = share === 1 ? move.to : {t0: between("t0"), t1: between("t1"), b0: between("b0"), b1: between("b1")};
  state.slotShare = share === 1 ? move.toShare : move.fromShare + (move.toShare - move.fromShare) * share;
  placeBoxes();
  if (share === 1) move = null;
}

function zoom(factorT, factorB, atT, atB) {
  const {t0, t1, b0, b1} = state.view;
  setView({t0: atT - (atT - t0) * factorT, t1: atT + (t1 - atT) * factorT,
           b0: atB - (atB - b0) * factorB, b1: atB + (b1 - atB) * factorB});
}

function zoomAtCentre(factor) {
  zoom(factor, factor, (state.view.t0 + state.view.t1) / 2, (state.view.b0 + state.view.b1) / 2);
}

function pan(shareT, shareB) {
  const dt = shareT * (state.view.t1 - state.view.t0);
  const db = shareB * (state.view.b1 - state.view.b0);
  setView({t0: state.view.t0 + dt, t1: state.view.t1 + dt, b0: state.view.b0 + db, b1: state.view.b1 + db});
}

// A stretch around [low, high) of which it takes a good third, but never more than [least, most).
function around(low, high, smallest, least, most) {
  const span = Math.max((high - low) * 2.6, smallest);
  const start = (low + high - span) / 2;
  return span >= most - least ? [least, most] : [start, start + span];
}

function viewOfTensor(tensor) {
  const k = placeInModel(model, tensor);
  const offsets = state.layout === "slots" ? model.slotOffset : model.packedOffset;
  const whole = fitView();
  const [t0, t1] = around(model.birth[k], model.death[k], 12, whole.t0, whole.t1);
  const [b0, b1] = around(offsets[k], offsets[k] + model.height[k], 64, whole.b0, whole.b1);
  return bounded({t0, t1, b0, b1});
}

function jumpTo(tensor) {
  const arena = Number(tensors.arena[tensor]);
  if (arena !== state.arena) showArena(arena);
  select(tensor);
  moveTo(viewOfTensor(tensor), state.layout === "slots" ? 1 : 0);
}

// ---- What is shown ----------------------------------------------------------------------------------------

function select(tensor) {
  state.selected = tensor;
  showSelected(tensor);
  markSelectedRow(tensor);
  redraw("overlay");
}

function showTable() {
  const isPeak = state.position === null;
  showLiveTable(model, isPeak ? model.peakPosition : state.position, isPeak, state.rows, state.selected, {
    choose: jumpTo,
    more: () => { state.rows += ROWS_AT_ONCE; showTable(); },
    peak: () => listPosition(null),
  });
}

function listPosition(position) {
  state.position = position;
  state.rows = ROWS_AT_ONCE;
  showTable();
  redraw("overlay");
}

function recolour() {
  colours = colourBoxes(model, state.colouring);
  drawLegend(model, state.colouring);
  redraw("boxes");
}

function applySearch(found) {
  state.found = found;
  state.isMatch = found ? Uint8Array.from(model.member, (i) => found.all[i]) : null;
  redraw("boxes");
}

function showArena(index) {
  state.arena = index;
  model = arenaModel(index);
  state.selected = -1;
  state.hover = -1;
  state.cursor = null;
  state.slotShare = state.layout === "slots" ? 1 : 0;
  placeBoxes();
  document.querySelector(`input[name="arena"][value="${index}"]`).checked = true;
  document.getElementById("empty").hidden = model.peak > 0;
  showStats(model);
  showSelected(-1);
  listPosition(null);
  recolour();
  applySearch(state.found);
  setView(fitView());
}

function showLayout(layout) {
  state.layout = layout;
  document.querySelector(`input[name="layout"][value="${layout}"]`).checked = true;
  moveTo(fitView(), layout === "slots" ? 1 : 0);
}

function onTheme() {
  cssColours.clear();
  if (model) recolour();
}

function showReadout() {
  const readout = document.getElementById("readout");
  if (state.cursor === null) {
    readout.textContent = "Wheel zooms, drag pans, click selects; a click on the curve lists what is live there.";
    return;
  }
  const live = model.live[state.cursor];
  readout.textContent = `Position ${whole(state.cursor)}: ${formatBytes(live)} live` +
    (model.lowerBound > 0 ? `, ${formatShare(live, model.lowerBound)} of the most.` : ".");
}

// ---- Pointer ----------------------------------------------------------------------------------------------

const pointers = new Map();
let drag = null;

function pointIn(canvas, event) {
  const box = canvas.getBoundingClientRect();
  return {x: event.clientX - box.left - GUTTER.left, y: event.clientY - box.top - GUTTER.top};
}

function positionAt(x) {
  const position = Math.floor(state.view.t0 + x / plotSize().width * (state.view.t1 - state.view.t0));
  return position >= 0 && position < endOfTime && x >= 0 && x <= plotSize().width ? position : null;
}

function addressAt(y) {
  const plot = plotSize();
  return state.view.b0 + (plot.height - y) / plot.height * (state.view.b1 - state.view.b0);
}

function tensorAt(point) {
  const plot = plotSize();
  if (point.x < 0 || point.y < 0 || point.x > plot.width || point.y > plot.height) return -1;
  const k = boxAt(model, offset, state.view, plot, point.x, point.y, 3);
  return k < 0 ? -1 : model.member[k];
}

function hoverAt(event) {
  const point = pointIn(overlayCanvas, event);
  state.hover = tensorAt(point);
  state.cursor = positionAt(point.x);
  overlayCanvas.classList.toggle("on-tensor", state.hover >= 0);
  showTooltip(state.hover, event.clientX, event.clientY);
  showReadout();
  redraw("overlay");
}

function leave() {
  state.hover = -1;
  state.cursor = null;
  showTooltip(-1, 0, 0);
  showReadout();
  redraw("overlay");
}

function onPointerDown(event) {
  overlayCanvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, pointIn(overlayCanvas, event));
  drag = {view: state.view, start: pointIn(overlayCanvas, event), moved: false};
}

function pinch(before, now) {
  const [a, b] = before;
  const [c, d] = now;
  const spread = (p, q) => Math.max(Math.hypot(p.x - q.x, p.y - q.y), 10);
  const factor = spread(a, b) / spread(c, d);
  const plot = plotSize();
  const middle = {x: (c.x + d.x) / 2, y: (c.y + d.y) / 2};
  zoom(factor, factor, state.view.t0 + middle.x / plot.width * (state.view.t1 - state.view.t0), addressAt(middle.y));
}

function onPointerMove(event) {
  const point = pointIn(overlayCanvas, event);
  if (pointers.size === 2 && pointers.has(event.pointerId)) {
    const before = Array.from(pointers.values());
    pointers.set(event.pointerId, point);
    pinch(before, Array.from(pointers.values()));
    drag.moved = true;
  } else if (drag && pointers.has(event.pointerId)) {
    const plot = plotSize();
    const dx = point.x - drag.start.x;
    const dy = point.y - drag.start.y;
    drag.moved = drag.moved || Math.hypot(dx, dy) > 4;
    if (!drag.moved) return;
    overlayCanvas.classList.add("dragging");
    showTooltip(-1, 0, 0);
    const dt = -dx / plot.width * (drag.view.t1 - drag.view.t0);
    const db = dy / plot.height * (drag.view.b1 - drag.view.b0);
    setView({t0: drag.view.t0 + dt, t1: drag.view.t1 + dt, b0: drag.view.b0 + db, b1: drag.view.b1 + db});
  } else {
    hoverAt(event);
  }
}

function onPointerUp(event) {
  const wasClick = drag && !drag.moved && event.type === "pointerup";
  pointers.delete(event.pointerId);
  overlayCanvas.classList.remove("dragging");
  drag = null;
  if (wasClick) select(tensorAt(pointIn(overlayCanvas, event)));
}

function onWheel(event) {
  event.preventDefault();
  const point = pointIn(overlayCanvas, event);
  const plot = plotSize();
  const amount = (event.deltaY || event.deltaX) * (event.deltaMode === 1 ? 24 : 1);
  const factor = Math.exp(Math.min(Math.max(amount, -240), 240) * (event.ctrlKey ? 0.01 : 0.0022));
  const atT = state.view.t0 + point.x / plot.width * (state.view.t1 - state.view.t0);
  zoom(event.altKey ? 1 : factor, event.shiftKey ? 1 : factor, atT, addressAt(point.y));
  hoverAt(event);
}

function startPointer() {
  overlayCanvas.addEventListener("pointerdown", onPointerDown);
  overlayCanvas.addEventListener("pointermove", onPointerMove);
  overlayCanvas.addEventListener("pointerup", onPointerUp);
  overlayCanvas.addEventListener("pointercancel", onPointerUp);
  overlayCanvas.addEventListener("pointerleave", leave);
  overlayCanvas.addEventListener("wheel", onWheel, {passive: false});
  overlayCanvas.addEventListener("dblclick", (event) => {
    const tensor = tensorAt(pointIn(overlayCanvas, event));
    if (tensor >= 0) jumpTo(tensor);
  });
  curveCanvas.addEventListener("pointermove", (event) => {
    state.cursor = positionAt(pointIn(curveCanvas, event).x);
    showReadout();
    redraw("overlay");
  });
  curveCanvas.addEventListener("pointerleave", leave);
  curveCanvas.addEventListener("click", (event) => {
    const position = positionAt(pointIn(curveCanvas, event).x);
    if (position !== null) listPosition(position);
  });
}

// ---- Keys -------------------------------------------------------------------------------------------------

// The next tensor by size, from the one that is selected.
function step(by) {
  if (model.count === 0) return;
  const place = state.selected < 0 ? (by > 0 ? -1 : 0) : model.bySize.indexOf(placeInModel(model, state.selected));
  select(model.member[model.bySize[(place + by + model.bySize.length) % model.bySize.length]]);
}

// The table for the position before or behind the one that it lists.
function stepPosition(by) {
  const position = (state.position === null ? model.peakPosition : state.position) + by;
  if (position >= 0 && position < endOfTime) listPosition(position);
}

const mapKeys = {
  ArrowLeft: () => pan(-0.12, 0), ArrowRight: () => pan(0.12, 0),
  ArrowUp: () => pan(0, 0.12), ArrowDown: () => pan(0, -0.12),
  ",": () => stepPosition(-1), ".": () => stepPosition(1),
  n: () => step(1), p: () => step(-1), Escape: () => select(-1),
  Enter: () => { if (state.selected >= 0) jumpTo(state.selected); },
};
const pageKeys = {
  "+": () => zoomAtCentre(0.8), "=": () => zoomAtCentre(0.8), "-": () => zoomAtCentre(1.25),
  "0": () => moveTo(fitView(), state.slotShare), Home: () => moveTo(fitView(), state.slotShare),
  l: () => showLayout(state.layout === "packed" ? "slots" : "packed"),
  a: () => showArena((state.arena + 1) % plan.arenas.length),
};

// ---- The start --------------------------------------------------------------------------------------------

// The head shows what every arena takes, and the sum; a click shows that arena below.
function addArenaSwitches() {
  const group = document.getElementById("arenas");
  const total = plan.arenas.reduce((sum, arena) => sum + Number(arena.peak_bytes), 0);
  document.getElementById("total").textContent = formatBytes(total);
  plan.arenas.forEach((arena, index) => {
    const input = element("input");
    Object.assign(input, {type: "radio", name: "arena", value: String(index)});
    input.addEventListener("change", () => showArena(index));
    const peak = Number(arena.peak_bytes);
    const text = element("span", "", element("bdi", "", arena.name), element("b", "", formatBytes(peak)),
                         element("small", "", formatShare(peak, total)));
    const label = element("label", "", input, text);
    label.title = arena.name;
    group.append(label);
  });
}

function recomputation() {
  const {runs_again: runs, added_cost: added, base_cost: base, paged_tensors: paged, moved, waited, hidden} = plan.remat;
  const parts = [];
  if (Number(runs)) parts.push(`${count(Number(runs), "operator")} run again`);
  if (Number(paged)) {
    const whole = Number(waited) + Number(hidden);
    const beside = Number(hidden) ? ` beside the computation, which waits for ${formatShare(Number(waited), whole)} of it` : "";
    parts.push(`${count(Number(paged), "tensor")} paged (${formatBytes(Number(moved))} moved${beside})`);
  }
  return `${parts.join(" and ")} for ${formatShare(Number(added), Number(base))} of a forward pass`;
}

// Where something is recomputed, that is what is looked for.
function offerRecomputation() {
  if (!plan.remat) return;
  const choice = document.getElementById("colouring");
  choice.querySelector('[value="again"]').hidden = false;
  choice.value = state.colouring = "again";
}

function showHead() {
  const title = plan.title || "Memory plan";
  showHeading(title, plan.title ? `${title}: memory plan` : title, `Memory plan, ${plan.mode} mode: ` + [
    `${count(tensors.ids.length, "tensor")} in ${count(plan.arenas.length, "arena")}`,
    count(endOfTime, "position"),
    ...(plan.remat ? [recomputation()] : [])].join(", "));
  document.getElementById("hashes").replaceChildren(...["plan", "assignment", "graph"].map((name) => {
    const made = hash(`${name} hash`, plan.hashes[name].slice(0, 16) + "…");
    made.title = plan.hashes[name];
    return made;
  }), element("span", "", `weir ${plan.version}`));
}

function startControls() {
  const onClick = (id, action) => document.getElementById(id).addEventListener("click", action);
  onClick("zoom-in", () => zoomAtCentre(0.7));
  onClick("zoom-out", () => zoomAtCentre(1.4));
  onClick("zoom-fit", () => moveTo(fitView(), state.slotShare));
  document.getElementById("colouring").addEventListener("change", (event) => {
    state.colouring = event.target.value;
    recolour();
  });
  for (const input of document.querySelectorAll('input[name="layout"]'))
    input.addEventListener("change", () => showLayout(input.value));
  startSearch("Find a tensor by name", {find: findTensors, describe: describeTensor, onFound: applySearch, onJump: jumpTo});
}

// What to look at first: what had to be recomputed or paged for, else the largest arena in which tensors share memory.
function firstArena() {
  const rank = (arena) => {
    if (plan.remat && arena.capacity !== null) return Infinity;
    return arena.name === "parameters" ? -Infinity : Number(arena.peak_bytes);
  };
  let best = 0;
  plan.arenas.forEach((arena, index) => { if (rank(arena) > rank(plan.arenas[best])) best = index; });
  return best;
}

function start() {
  startShell((event) => plan.arenas.length > 0 && (event.target === overlayCanvas && mapKeys[event.key] || pageKeys[event.key]), onTheme);
  showHead();
  offerRecomputation();
  if (plan.arenas.length === 0) {
    document.querySelector(".toolbar").hidden = true;
    document.getElementById("arenas").hidden = true;
    const note = element("p", "", "The graph has no tensors, so there is nothing to place.");
    document.querySelector("main").replaceChildren(note);
    return;
  }
  addArenaSwitches();
  startControls();
  startPointer();
  resizeCharts();
  showArena(firstArena());
  showReadout();
  new ResizeObserver(() => { resizeCharts(); redraw("boxes"); }).observe(document.getElementById("map"));
}

try {
  start();
  document.documentElement.dataset.ready = "yes";
} catch (fault) {
  document.querySelector("main").replaceChildren(element("p", "", `This plan cannot be drawn: ${fault.message}`));
  throw fault;
}
