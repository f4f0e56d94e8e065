// The page's state and what changes it: the choice of a sequence, selection, hover, zoom, keys.

const state = {sequence: 0, view: "rows", withHidden: true, zoom: 1, selection: null}; // selection: {row, cell or null}
const stage = document.getElementById("stage");
const chooser = document.getElementById("sequence");
const MOST_ZOOM = 2, LEAST_ZOOM = 0.08, LEAST_READABLE_ZOOM = 0.8;
let layout = {places: [], width: 0, height: 0};

function current() {
  return batch.sequences[state.sequence];
}

// ---- Drawing ----------------------------------------------------------------------------------------------

function drawHead() {
  const step = current() ? stepOf(current()) : batch.steps[0];
  const title = batch.stage ? batch.dataset : `${batch.task.name}: context`;
  const place = batch.stage ? [batch.stage, `epoch ${step.epoch}, position ${step.position}`, `rank ${batch.rank} of ${batch.world_size}`]
                            : [count(step.sequences.length, "request")];
  const asked = batch.task.destination_table ? `predicts links from ${batch.task.anchor_table} to ${batch.task.destination_table}`
                                             : `predicts ${batch.task.target} (${batch.task.stype}) of ${batch.task.anchor_table}`;
  showHeading(title, batch.stage ? `${title} · training batch` : title,
              [asked, ...place, `${(Number(step.bytes) / 1e6).toFixed(2)} MB`].join(" · "));
  const last = batch.steps.at(-1);
  const hashes = document.getElementById("hashes");
  hashes.replaceChildren(hash("batch digest", step.digest));
  if (current()) hashes.append(hash("sample digest", current().digest));
  if (batch.stage) hashes.append(element("span", "", `the page after this one: --epoch ${last.next_epoch} --position ${last.next_position}`));
  hashes.append(element("span", "", `weir ${batch.version}`));
}

// The datasets of a mixed batch. Another one is another page.
function fillParts() {
  const choice = document.getElementById("part");
  choice.hidden = parts.length < 2;
  parts.forEach((part, number) => {
    const sequences = part.steps.reduce((sum, step) => sum + step.sequences.length, 0);
    const option = element("option", "", `${part.dataset} · ${count(sequences, "sequence")}`);
    option.value = number;
    option.selected = number === partNumber;
    choice.append(option);
  });
  choice.addEventListener("change", () => {
    location.hash = `#dataset-${choice.value}`;
    location.reload();
  });
}

// All sequences by batch.
function fillChooser() {
  batch.steps.forEach((step, stepNumber) => {
    const group = batch.steps.length > 1 ? element("optgroup") : chooser;
    if (group !== chooser) {
      group.label = `batch ${stepNumber + 1} of ${batch.steps.length}: epoch ${step.epoch}, position ${step.position}`;
      chooser.append(group);
    }
    step.sequences.forEach((sequence, number) => {
      const role = sequence.role ? `${sequence.role} ` : "";
      const what = sequence.rows.length ? `${role}${rowName(sequence.rows[0])} · as of ${cutoffText(sequence)} · ${count(sequence.rows.length, "row")}` : "padding";
      const option = element("option", "", `${number + 1} of ${step.sequences.length} · ${what}`);
      option.value = batch.sequences.indexOf(sequence);
      group.append(option);
    });
  });
  for (const part of document.querySelectorAll(".steps-only")) part.hidden = batch.steps.length < 2;
}

// The first sequence of the batch that is so many further on.
function chooseStep(by) {
  const wanted = (current() ? current().step : 0) + by;
  const number = batch.sequences.findIndex((sequence) => sequence.step === wanted);
  if (number >= 0) choose(number);
}

function drawSequence() {
  drawHead();
  const sequence = current();
  document.getElementById("previous").disabled = state.sequence === 0;
  document.getElementById("next").disabled = state.sequence >= batch.sequences.length - 1;
  document.getElementById("previous-step").disabled = !sequence || sequence.step === 0;
  document.getElementById("next-step").disabled = !sequence || sequence.step >= batch.steps.length - 1;
  chooser.disabled = batch.sequences.length === 0;
  if (!sequence) {
    document.getElementById("empty").hidden = false;
    document.getElementById("empty").textContent = "This rank has no sequence in this batch.";
    return;
  }
  chooser.value = state.sequence;
  document.getElementById("empty").hidden = sequence.rows.length > 0;
  drawStats(sequence);
  drawTimeline(sequence);
  if (state.view === "rows") drawRows(sequence);
  else if (state.view === "masks") drawMasks(sequence);
  else drawLabels(sequence);
}

function drawRows(sequence) {
  layout = layOut(sequence, state.withHidden);
  drawCards(sequence, layout, state.withHidden);
  drawArrows(sequence, layout, state.withHidden);
  select(state.selection);
  setZoom(state.zoom);
}

function setZoom(zoom, pointer) {
  const before = state.zoom;
  const x = pointer ? pointer.x : stage.clientWidth / 2, y = pointer ? pointer.y : stage.clientHeight / 2;
  const place = [(stage.scrollLeft + x) / before, (stage.scrollTop + y) / before];
  state.zoom = Math.min(MOST_ZOOM, Math.max(LEAST_ZOOM, zoom));
  canvas.style.transform = `scale(${state.zoom})`;
  canvas.style.width = `${layout.width}px`;
  canvas.style.height = `${layout.height}px`;
  stage.scrollLeft = place[0] * state.zoom - x;
  stage.scrollTop = place[1] * state.zoom - y;
}

function fit(least) {
  setZoom(Math.max(least, Math.min(1, stage.clientWidth / layout.width, stage.clientHeight / layout.height)));
  stage.scrollTo(0, 0);
}

// ---- Selection --------------------------------------------------------------------------------------------

function select(selection) {
  state.selection = selection;
  for (const marked of document.querySelectorAll(".is-selected, .is-picked")) marked.classList.remove("is-selected", "is-picked");
  if (selection !== null) {
    for (const mark of document.querySelectorAll(`.card[data-row="${selection.row}"], .dot[data-row="${selection.row}"]`))
      mark.classList.add("is-selected");
    if (selection.cell !== null)
      canvas.querySelector(`.cell[data-row="${selection.row}"][data-cell="${selection.cell}"]`)?.classList.add("is-picked");
  }
  lightUp(selection === null ? null : selection.row, false);
  drawSelected(current(), selection);
}

function reveal(number) {
  const place = layout.places[number];
  if (!place) return;
  const z = state.zoom;
  const isInside = place.x * z >= stage.scrollLeft && (place.x + CARD_WIDTH) * z <= stage.scrollLeft + stage.clientWidth &&
                   place.y * z >= stage.scrollTop && (place.y + place.height) * z <= stage.scrollTop + stage.clientHeight;
  if (!isInside) stage.scrollTo({left: (place.x + CARD_WIDTH / 2) * z - stage.clientWidth / 2, top: (place.y + 60) * z - stage.clientHeight / 2});
}

// The row and cell that something on the page stands for.
function targetOf(node) {
  const cell = node.closest?.("[data-cell]");
  if (cell) return {row: +cell.dataset.row, cell: +cell.dataset.cell};
  const row = node.closest?.("[data-row]");
  return row ? {row: +row.dataset.row, cell: null} : null;
}

function choose(number) {
  if (number < 0 || number >= batch.sequences.length) return;
  state.sequence = number;
  state.selection = batch.sequences[number].rows.length ? {row: 0, cell: null} : null;
  stage.scrollTo(0, 0);
  drawSequence();
  if (state.view === "rows") fit(LEAST_READABLE_ZOOM);
}

// Goes to a row or cell of any sequence.
function jumpTo({sequence, row, cell}) {
  if (state.view !== "rows") show("rows");
  if (sequence !== state.sequence) choose(sequence);
  select({row, cell});
  reveal(row);
}

function show(view) {
  state.view = view;
  document.querySelector(`input[name="view"][value="${view}"]`).checked = true;
  document.getElementById("rows-view").hidden = view !== "rows";
  document.getElementById("masks-view").hidden = view !== "masks";
  document.getElementById("labels-view").hidden = view !== "labels";
  for (const part of document.querySelectorAll(".rows-only")) part.hidden = view !== "rows";
  drawSequence();
}

function setHidden(isShown) {
  state.withHidden = isShown;
  document.getElementById("show-hidden").checked = isShown;
  drawSequence();
}

// ---- Input ------------------------------------------------------------------------------------------------

function listen() {
  const on = (id, event, action) => document.getElementById(id).addEventListener(event, action);
  on("previous", "click", () => choose(state.sequence - 1));
  on("next", "click", () => choose(state.sequence + 1));
  on("previous-step", "click", () => chooseStep(-1));
  on("next-step", "click", () => chooseStep(1));
  on("sequence", "change", () => choose(+chooser.value));
  on("views", "change", (event) => show(event.target.value));
  on("show-hidden", "change", (event) => setHidden(event.target.checked));
  on("zoom-in", "click", () => setZoom(state.zoom * 1.25));
  on("zoom-out", "click", () => setZoom(state.zoom / 1.25));
  on("zoom-fit", "click", () => fit(LEAST_ZOOM));
  on("zoom-one", "click", () => setZoom(1));
  on("selected", "click", (event) => {
    const link = event.target.closest("[data-select]");
    if (!link) return;
    select({row: +link.dataset.select, cell: null});
    reveal(+link.dataset.select);
  });
  for (const part of [canvas, times]) {
    part.addEventListener("click", (event) => {
      const found = targetOf(event.target);
      if (!found) return;
      select(found);
      if (part === times) reveal(found.row);
    });
    part.addEventListener("pointermove", hover);
    part.addEventListener("pointerleave", hover);
  }
  stage.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const box = stage.getBoundingClientRect();
    setZoom(state.zoom * Math.exp(-event.deltaY / 400), {x: event.clientX - box.left, y: event.clientY - box.top});
  }, {passive: false});
  listenForDrag();
  addEventListener("resize", () => current() && drawTimeline(current()));
}

function hover(event) {
  const found = event.type === "pointerleave" || stage.classList.contains("dragging") ? null : targetOf(event.target);
  if (!found) {
    hideTooltip();
    lightUp(state.selection === null ? null : state.selection.row, false);
    return;
  }
  showTooltip(event, tooltipOf(current(), found.row, found.cell));
  lightUp(found.row, true);
}

// Drags the stage by its ground; a drag that begins on a card is none.
function listenForDrag() {
  let from = null;
  stage.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.target.closest(".card")) return;
    from = {x: event.clientX + stage.scrollLeft, y: event.clientY + stage.scrollTop};
    stage.setPointerCapture(event.pointerId);
  });
  stage.addEventListener("pointermove", (event) => {
    if (!from) return;
    stage.classList.add("dragging");
    stage.scrollTo(from.x - event.clientX, from.y - event.clientY);
  });
  for (const end of ["pointerup", "pointercancel"])
    stage.addEventListener(end, () => {
      from = null;
      stage.classList.remove("dragging");
    });
}

const keys = {
  n: () => choose(state.sequence + 1), p: () => choose(state.sequence - 1),
  N: () => chooseStep(1), P: () => chooseStep(-1),
  "+": () => setZoom(state.zoom * 1.25), "-": () => setZoom(state.zoom / 1.25), 0: () => fit(LEAST_ZOOM), 1: () => setZoom(1),
  l: () => show(state.view === "labels" ? "rows" : "labels"), m: () => show(state.view === "masks" ? "rows" : "masks"),
  h: () => setHidden(!state.withHidden),
  Escape: () => state.view === "rows" && current() && select(null),
};

startShell((event) => keys[event.key], () => state.view === "masks" && drawSequence());
fillParts();
fillChooser();
listen();
startSearch("Find a key, a value, a table",
            {find: (text) => findAll(text, state.sequence), describe: describeMatch, onJump: jumpTo});
if (batch.sequences.length) choose(0);
else drawSequence();
document.documentElement.dataset.ready = "true";
