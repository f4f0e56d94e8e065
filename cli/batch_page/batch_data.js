// The batch as the program wrote it, and what the page asks of it. Every text in it is a stranger's: it reaches the
// page through textContent alone.

const batch = JSON.parse(document.getElementById("batch-data").textContent);
const SHOWN = 0, NULL_CELL = 1, LATE = 2, DROPPED = 3, LABEL = 4, CUT = 5, TARGET = 6;
const EDGE_SHOWN = 0, EDGE_LATE = 1, EDGE_HIDDEN = 2, EDGE_TO_LATER_ROW = 3;
const ALL_TIMES = "all of time";

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function tableOf(row) {
  return batch.tables[row.table];
}

function hueOf(table) {
  return Math.round(table * 137.5 + 205) % 360;
}

// A row's key, where the store keeps keys; else its number in the table.
function rowLabel(row) {
  return row.key ?? `#${row.row - tableOf(row).row_start}`;
}

function rowName(row) {
  return `${tableOf(row).name} ${rowLabel(row)}`;
}

function columnOf(row, index) {
  return batch.columns[tableOf(row).column_start + index];
}

function cutoff(sequence) {
  return sequence.seen === null ? null : sequence.seen[1];
}

function cutoffText(sequence) {
  return cutoff(sequence) === null ? ALL_TIMES : shortTime(sequence.seen[0]);
}

// "2024-02-29T12:34:56.789Z" as "2024-02-29 12:34": seconds only where they say something.
function shortTime(text) {
  return text.replace("T", " ").replace(/Z$/, "").replace(/\.0+$/, "").replace(/(\d\d:\d\d):00$/, "$1").replace(/ 00:00$/, "");
}

function dayOf(text) {
  return text.split("T")[0];
}

function spanText(seconds) {
  const size = Math.abs(seconds);
  for (const [unit, length, least] of [["year", 31557600, 2], ["day", 86400, 1], ["hour", 3600, 1], ["minute", 60, 1]])
    if (size >= length * least) return count(Math.floor(size / length), unit);
  return count(Math.round(size), "second");
}

function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

// How a time lies to the observation time, in words.
function againstCutoff(seconds, sequence) {
  const seen = cutoff(sequence);
  if (seen === null) return "";
  if (seconds === seen) return "at the observation time";
  return `${spanText(seconds - seen)} ${seconds < seen ? "before" : "after"} the observation time`;
}

// The value of a cell as the page writes it.
function valueText(column, value) {
  if (value === null) return "null";
  if (column.stype === "identifier") return value || "present";
  if (column.stype === "timestamp") return shortTime(value);
  return value === "" ? "(empty)" : value;
}

function reasonOf(sequence, row, index) {
  const cell = row.cells[index];
  if (cell[0] === TARGET) return "The target: what the model is to predict. Its true value stands in the batch; hiding it is the model's job, by is_target.";
  if (cell[0] === LATE) {
    if (cell[3] === null) return "Not known at the observation time: the model gets null.";
    if (cell[3][1] === null) return "Never known: the column that says when it became known is null. The model gets null.";
    return `Not known yet: it became known on ${shortTime(cell[3][0])}, ${againstCutoff(cell[3][1], sequence)}. The model gets null.`;
  }
  if (cell[0] === NULL_CELL) return "Null in the database.";
  if (cell[0] === DROPPED) return "Left out: the task drops this column, because it would give the answer away.";
  if (cell[0] === LABEL) return `Left out: the label of another row (label_visibility is ${batch.label_visibility}); a held-out label is never in a context.`;
  if (cell[0] === CUT) return `Left out: the sequence ends at ${count(batch.sequence_length, "cell")}.`;
  return "";
}

function decodePermutation(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const order = new Uint16Array(bytes.length / 2);
  for (let i = 0; i < order.length; i++) order[i] = bytes[2 * i] | bytes[2 * i + 1] << 8;
  return order;
}

// Which cell stands at each position: its row and, by ColumnIdx, its column.
function positionsOf(sequence) {
  const rows = new Int32Array(sequence.cells), columns = new Int32Array(sequence.cells);
  if (sequence.cells > 0) columns[0] = batch.task.column;
  sequence.rows.forEach((row, number) => row.cells.forEach((cell, index) => {
    if (cell[1] < 0) return;
    rows[cell[1]] = number;
    columns[cell[1]] = tableOf(row).column_start + index;
  }));
  return {rows, columns};
}

// Rows by their distance from the anchor, along foreign keys that the model sees.
function distancesOf(sequence) {
  const near = sequence.rows.map(() => []);
  sequence.rows.forEach((row, number) => row.parents.forEach(([, parent, state]) => {
    if (state !== EDGE_SHOWN || parent < 0) return;
    near[number].push(parent);
    near[parent].push(number);
  }));
  const distance = new Array(sequence.rows.length).fill(-1);
  if (distance.length) distance[0] = 0;
  const queue = distance.length ? [0] : [];
  while (queue.length) {
    const row = queue.shift();
    for (const other of near[row])
      if (distance[other] < 0) {
        distance[other] = distance[row] + 1;
        queue.push(other);
      }
  }
  const last = Math.max(0, ...distance) + 1;
  return distance.map((d) => d < 0 ? last : d);
}

function childrenOf(sequence, number) {
  const found = [];
  sequence.rows.forEach((row, child) => row.parents.forEach((edge) => {
    if (edge[1] === number) found.push({child, edge});
  }));
  return found;
}
