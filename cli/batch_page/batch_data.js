// The batches as the program wrote them, and what the page asks of them.

// A mixed batch is shown dataset by dataset: the address says which.
const parts = data.parts ?? [data];
const partNumber = Math.min(Math.max(Number(location.hash.replace("#dataset-", "")) || 0, 0), parts.length - 1);
const batch = parts[partNumber];
// The sequences of all batches, one after the other; each knows its batch.
batch.sequences = batch.steps.flatMap((step, number) => step.sequences.map((sequence) => Object.assign(sequence, {step: number})));
const SHOWN = 0, NULL_CELL = 1, LATE = 2, DROPPED = 3, LABEL = 4, CUT = 5, TARGET = 6, MASKED = 7;
const EDGE_SHOWN = 0, EDGE_LATE = 1, EDGE_HIDDEN = 2, EDGE_TO_LATER_ROW = 3;
const ALL_TIMES = "all of time";

function tableOf(row) {
  return batch.tables[row.table];
}

function hueOf(table) {
  return Math.round(table * 137.5 + 205) % 360;
}

// A row's key if the store keeps keys; else its number in the table, which nobody can take for a key.
function rowLabel(row) {
  if (tableOf(row).is_task) return row.split ? `seed ${row.row - tableOf(row).row_start}` : "as asked";
  return row.key ?? `row ${row.row - tableOf(row).row_start}`;
}

function rowName(row) {
  return `${tableOf(row).name} ${rowLabel(row)}`;
}

function columnIdxOf(row, index) {
  const table = tableOf(row);
  return table.columns ? table.columns[index] : table.column_start + index;
}

function columnOf(row, index) {
  return batch.columns[columnIdxOf(row, index)];
}

// The part of a sequence that a row belongs to: its number, the row that starts it, and how often walks came there.
function partOf(sequence, number) {
  let found = {part: 0, start: 0, visits: 0};
  sequence.parts.forEach(([start, visits], part) => { if (start <= number) found = {part, start, visits}; });
  return found;
}

// Why a row is in the sequence, if it is an example or belongs to one.
function exampleOf(sequence, number) {
  const {part, start, visits} = partOf(sequence, number);
  if (part === 0) return "";
  const why = visits > 0 ? `found by walks, which came to it ${count(visits, "time")}` : "drawn, to fill the sequence";
  return number === start ? `Example ${part}: ${why}.` : `Of the neighbourhood of example ${part}, ${rowName(sequence.rows[start])}.`;
}

// Why the label of a task row is there.
function reasonOfLabel(sequence, row) {
  const known = row.known === null || row.known[1] === null ? "" : ` on ${shortTime(row.known[0])}, ${againstCutoff(row.known[1], sequence)}`;
  return `The label of another seed (${row.split} split). It is shown because it was known${known}, and because label_visibility (${batch.label_visibility}) shows its split. ${exampleOf(sequence, sequence.rows.indexOf(row))}`;
}

// The labels of other seeds in a sequence: how many, and in a few words and in a sentence why. A cell task's are cells of its rows.
function labelsOf(sequence) {
  if (batch.task.is_cell || batch.task.destination_table) return null;
  const shown = sequence.rows.filter((row, number) => number > 0 && tableOf(row).is_task).length;
  if (!batch.task.has_label_times) return [shown, "the task has no horizon", "They are not shown, because the schema does not say when they are known: give the task a horizon or a label_known_column."];
  if (!batch.shows_labels) return [shown, "not asked for", "They are not shown, because the manifest does not say \"labels\": true."];
  return [shown, "known by then", `Those that were known by then, of the splits that label_visibility (${batch.label_visibility}) shows.`];
}

function stepOf(sequence) {
  return batch.steps[sequence.step];
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
  if (column.stype === "identifier") return value || "not null";
  if (column.stype === "timestamp") return shortTime(value);
  return value === "" ? "(empty)" : value;
}

function reasonOf(sequence, row, index) {
  const cell = row.cells[index];
  if (cell[0] === TARGET) return "The target: what the model is to predict. Its true value stands in the batch; hiding it is the model's job, by is_target.";
  if (cell[0] === MASKED) return "Masked: a further target. Its true value stands in the batch; hiding it is the model's job, by is_masked.";
  if (cell[0] === LATE) {
    if (cell[3] === null) return "Not known at the observation time: the model gets null.";
    if (cell[3][1] === null) return "Never known: the column that says when it became known is null. The model gets null.";
    return `Not known yet: it became known on ${shortTime(cell[3][0])}, ${againstCutoff(cell[3][1], sequence)}. The model gets null.`;
  }
  if (cell[2] === "" && columnOf(row, index).stype === "identifier" && cell[0] === SHOWN)
    return "The model sees only that it is not null. The store keeps the values of primary keys if the schema says \"keys\": true, of other identifiers never.";
  if (tableOf(row).is_task && index === 0 && cell[0] === SHOWN) return reasonOfLabel(sequence, row);
  if (cell[0] === NULL_CELL) return "Null in the database.";
  if (cell[0] === DROPPED) return "Left out: the task drops this column, because it would give the answer away.";
  if (cell[0] === LABEL) return `Left out: the label of another row (label_visibility is ${batch.label_visibility}); a held-out label is never in a context.`;
  if (cell[0] === CUT) return `Left out: the sequence ends at ${count(stepOf(sequence).sequence_length, "cell")}.`;
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
    columns[cell[1]] = columnIdxOf(row, index);
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
