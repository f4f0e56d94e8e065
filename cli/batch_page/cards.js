// Rows as cards: a little table each, in columns by their distance from the anchor, which stands at the left. A
// column that grows too high is folded into several.

const CARD_WIDTH = 268, CARD_GAP = 16, FOLD_GAP = 22, LAYER_GAP = 96, MARGIN = 26;
const HEAD_HEIGHT = 26, CELL_HEIGHT = 19, CARD_PADDING = 9;
const SHORTEST_FOLD = 680;
const MOST_CARDS = 400;

const canvas = document.getElementById("canvas");

function shownCells(row, withHidden) {
  const indices = row.cells.map((_, index) => index);
  return withHidden ? indices : indices.filter((index) => ![DROPPED, LABEL, CUT].includes(row.cells[index][0]));
}

// Which lines a card has: the target of a derived task is a line of its own, in front.
function linesOf(sequence, number, withHidden) {
  const lines = shownCells(sequence.rows[number], withHidden).map((index) => ({index}));
  if (number === 0 && !batch.task.is_cell && !tableOf(sequence.rows[number]).is_task) lines.unshift({index: -1});
  return lines;
}

function heightOf(lines) {
  return HEAD_HEIGHT + lines.length * CELL_HEIGHT + CARD_PADDING;
}

// {x, y, lines} of every card, and the size of the whole.
function layOut(sequence, withHidden) {
  if (!sequence.rows.length) return {places: [], width: 0, height: 0};
  const distance = distancesOf(sequence);
  const count = Math.min(sequence.rows.length, MOST_CARDS);
  const layers = [];
  for (let number = 0; number < count; number++) (layers[distance[number]] ??= []).push(number);
  const lines = [...Array(count).keys()].map((number) => linesOf(sequence, number, withHidden));
  const totals = layers.map((layer) => layer.reduce((sum, number) => sum + heightOf(lines[number]) + CARD_GAP, 0));
  const area = totals.reduce((sum, total) => sum + total, 0) * (CARD_WIDTH + FOLD_GAP);
  const fold = Math.max(SHORTEST_FOLD, Math.sqrt(area / 2.1));
  const places = [];
  let x = MARGIN, height = 0;
  for (const layer of layers) {
    if (!layer) continue;
    const total = layer.reduce((sum, number) => sum + heightOf(lines[number]) + CARD_GAP, 0);
    const limit = total / Math.ceil(total / fold);
    let y = MARGIN;
    for (const number of layer) {
      const own = heightOf(lines[number]);
      if (y > MARGIN && y + own / 2 > MARGIN + limit) {
        x += CARD_WIDTH + FOLD_GAP;
        y = MARGIN;
      }
      places[number] = {x, y, height: own, lines: lines[number]};
      y += own + CARD_GAP;
      height = Math.max(height, y);
    }
    x += CARD_WIDTH + LAYER_GAP;
  }
  return {places, width: x - LAYER_GAP + MARGIN, height: height - CARD_GAP + MARGIN};
}

function cellClass(state) {
  if (state === TARGET || state === MASKED) return "cell is-target";
  if (state === LATE) return "cell is-late";
  if (state === NULL_CELL) return "cell is-null";
  return state === SHOWN ? "cell" : "cell is-out";
}

function valueClass(stype) {
  const words = {boolean: "value", categorical: "value", text: "value"};
  return {...words, timestamp: "value time", identifier: "value identifier"}[stype] ?? "value number";
}

// Where what is hidden is not shown, a cell that is not known yet is what the model gets: null.
function makeLine(sequence, row, number, index, withHidden) {
  const isDerived = index < 0;
  const column = isDerived ? batch.columns[batch.task.column] : columnOf(row, index);
  let cell = isDerived ? [TARGET, 0, sequence.target] : row.cells[index];
  if (cell[0] === LATE && !withHidden) cell = [NULL_CELL, cell[1], null];
  const line = element("div", cellClass(cell[0]));
  line.dataset.row = number;
  line.dataset.cell = index;
  const name = element("span", "column");
  name.append(element("bdi", "", column.name));
  const value = element("span", valueClass(column.stype));
  const text = element(cell[0] === LATE ? "s" : "bdi", "", valueText(column, cell[2]));
  value.append(text);
  line.append(name, value);
  return line;
}

function makeCard(sequence, number, place, withHidden) {
  const row = sequence.rows[number];
  const card = element("div", number === 0 ? "card is-anchor" : "card");
  card.dataset.row = number;
  card.style.cssText = `left:${place.x}px;top:${place.y}px;--hue:${hueOf(row.table)}`;
  const head = element("button", "head");
  head.type = "button";
  const table = element("span", "table");
  table.append(element("bdi", "", tableOf(row).name));
  const label = element("span", "number");
  label.append(element("bdi", "", rowLabel(row)));
  head.append(table, label);
  const when = element("span", "when", row.time === null ? "" : dayOf(row.time[0]));
  const seen = cutoff(sequence);
  if (row.time !== null && seen !== null && row.time[1] > seen) when.classList.add("is-late");
  head.append(when);
  card.append(head, ...place.lines.map(({index}) => makeLine(sequence, row, number, index, withHidden)));
  return card;
}

function drawCards(sequence, layout, withHidden) {
  for (const card of canvas.querySelectorAll(".card")) card.remove();
  canvas.append(...layout.places.map((place, number) => makeCard(sequence, number, place, withHidden)));
}
