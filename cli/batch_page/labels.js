// The labels: how often each value is the target in the batch, on the page and in the whole dataset. A base rate of
// the batch that is far from the dataset's says that the samples are not in a random order.

function labelText([value, , to]) {
  const column = batch.columns[batch.task.column];
  return to === undefined ? valueText(column, value) : `${valueText(column, value)} to ${valueText(column, to)}`;
}

function share(part, whole) {
  return whole > 0 ? `${(100 * part / whole).toFixed(1)} %` : "";
}

function labelBar(number, whole, className) {
  const cell = element("td", "bar");
  const bar = element("i", className);
  bar.style.width = `${whole > 0 ? 100 * number / whole : 0}%`;
  cell.append(bar);
  return cell;
}

// One line per value: [text, how many in the dataset, whether a sequence belongs to it].
function labelLines() {
  if (batch.task.destination_table) return linkLines();
  const lines = batch.labels.items.map((item, index) => [labelText(item), item[1], (sequence) => sequence.label === index]);
  if (batch.labels.others) lines.push(["other values", batch.labels.others, (sequence) => sequence.label < 0 && sequence.target !== null]);
  if (batch.labels.nulls) lines.push(["null", batch.labels.nulls, (sequence) => sequence.label < 0 && sequence.target === null]);
  return lines;
}

// The dataset has the pairs that came true; what is false is drawn for each of them.
function linkLines() {
  const lines = [["true: the destination", batch.labels.count, "destination"], ["false: a negative, drawn", 0, "negative"], ["null: the source", 0, "source"]];
  return lines.map(([text, inDataset, role]) => [text, inDataset, (sequence) => sequence.role === role]);
}

function drawLabels(sequence) {
  const samples = (list) => list.filter((one) => one.rows.length > 0);
  const columns = [["this batch", samples(stepOf(sequence).sequences)]];
  if (batch.steps.length > 1) columns.push([`all ${batch.steps.length} batches`, samples(batch.sequences)]);
  const table = element("table", "labels");
  const head = element("tr");
  head.append(element("th", "", batch.task.target));
  for (const [name, list] of columns) head.append(heading(`${name}: ${count(list.length, batch.task.destination_table ? "sequence" : "sample")}`));
  head.append(heading(`the dataset: ${count(batch.labels.count, "sample")}`));
  table.append(head);
  for (const [text, inDataset, belongs] of labelLines()) {
    const row = element("tr", belongs(sequence) ? "is-current" : "");
    const name = element("td", "name");
    name.append(element("bdi", "", text));
    row.append(name);
    for (const [, list] of columns) addShare(row, list.filter(belongs).length, list.length, "of-batch");
    addShare(row, inDataset, batch.labels.count, "of-dataset");
    table.append(row);
  }
  const note = element("p", "", `How often each value of ${batch.task.target} is the target. The dataset is all of ${batch.dataset}; ` +
    "the marked line is the sequence that is chosen above.");
  document.getElementById("labels-view").replaceChildren(note, table);
}

function heading(text) {
  const made = element("th", "", text);
  made.colSpan = 3;
  return made;
}

function addShare(row, number, whole, className) {
  row.append(element("td", "number", number.toLocaleString("en")), element("td", "number", share(number, whole)), labelBar(number, whole, className));
}
