// What stands beside the rows: numbers about the sequence, the selected row or cell, the tooltip.

function drawStats(sequence) {
  const stats = document.getElementById("stats");
  stats.replaceChildren();
  if (!sequence.rows.length) return;
  const states = sequence.rows.flatMap((row) => row.cells.map((cell) => cell[0]));
  const tally = (...wanted) => states.filter((state) => wanted.includes(state)).length;
  const tables = new Set(sequence.rows.map((row) => row.table)).size;
  const target = batch.columns[batch.task.column];
  const role = sequence.role ? `${sequence.role} ` : "";
  stats.append(
    stat(`target: ${batch.task.target}`, valueText(target, sequence.target), `${batch.task.stype} of ${role}${rowName(sequence.rows[0])}`, "is-target"),
    stat("observation time", cutoffText(sequence), cutoff(sequence) === null ? "sees everything" : "nothing later is shown"),
    stat("rows", whole(sequence.rows.length), `of ${count(tables, "table")}` + (sequence.rows.length > MOST_CARDS ? `; ${MOST_CARDS} are drawn` : "")),
    stat("cells", whole(sequence.cells), `of ${whole(stepOf(sequence).sequence_length)} in a sequence`),
    stat("not known yet", whole(tally(LATE)), "cells that the model gets as null", tally(LATE) ? "is-late" : ""),
    stat("left out", whole(tally(DROPPED, LABEL, CUT)),
         `${tally(DROPPED)} dropped, ${count(tally(LABEL), "label")}, ${tally(CUT)} cut`));
  const labels = labelsOf(sequence);
  if (labels) {
    const made = stat("labels of others", whole(labels[0]), labels[1]);
    made.title = labels[2];
    stats.append(made);
  }
  if (sequence.parts.length > 1) stats.append(stat("examples", whole(sequence.parts.length - 1), `found by walks: ${sequence.parts.filter(([, visits], part) => part > 0 && visits > 0).length}`));
}

// ---- The selected row or cell -----------------------------------------------------------------------------

function reasonBox(state, text) {
  return element("p", state === LATE ? "reason late" : state === TARGET || state === MASKED ? "reason target" : "reason", text);
}

function cellFacts(sequence, row, index) {
  const isDerived = index < 0;
  const column = isDerived ? batch.columns[batch.task.column] : columnOf(row, index);
  const cell = isDerived ? [TARGET, 0, sequence.target] : row.cells[index];
  const entries = [["value", valueText(column, cell[2])], ["type", column.stype]];
  if (column.about) entries.push(["about", column.about]);
  entries.push(["position", cell[1] < 0 ? "not in the sequence" : `${cell[1]}`]);
  if (column.known_at !== null) entries.push(["known at", column.known_at]);
  return {column, cell, entries};
}

function rowLink(sequence, number) {
  const link = element("button", "link");
  link.type = "button";
  link.dataset.select = number;
  link.append(element("bdi", "", rowName(sequence.rows[number])));
  return link;
}

function edgeLine(sequence, edge, other) {
  const line = element("li");
  if (other < 0) line.append(element("span", "via", `a row of ${batch.tables[batch.edges[edge[0]].parent_table].name}`));
  else line.append(rowLink(sequence, other));
  const via = element("span", "via", "by ");
  via.append(element("bdi", "", batch.edges[edge[0]].name));
  line.append(via);
  if (edge[2] === EDGE_LATE) line.append(element("span", "why late", edge[3] && edge[3][1] !== null ? `from ${dayOf(edge[3][0])}` : "never known"));
  else if (edge[2] === EDGE_HIDDEN) line.append(element("span", "why", "hidden by the task"));
  else if (edge[2] === EDGE_TO_LATER_ROW) line.append(element("span", "why late", `a row of ${dayOf(edge[3][0])}`));
  else if (other < 0) line.append(element("span", "why", "not in the sequence"));
  return line;
}

function edgeList(title, lines) {
  if (!lines.length) return [];
  const list = element("ul", "links");
  list.append(...lines);
  return [element("h3", "", title), list];
}

function drawSelected(sequence, selection) {
  const panel = document.getElementById("selected");
  panel.replaceChildren();
  if (selection === null || !sequence.rows[selection.row]) {
    panel.append(element("p", "kicker", "Select a row or a cell to see when it was known and what it is joined to."));
    return;
  }
  const row = sequence.rows[selection.row];
  if (selection.cell !== null) {
    const {column, cell, entries} = cellFacts(sequence, row, selection.cell);
    const title = element("h2");
    title.append(element("bdi", "", column.name));
    panel.append(element("p", "kicker", `cell of ${rowName(row)}`), title, factList(entries));
    const reason = selection.cell < 0 ? "The target: what the model is to predict. It is a cell of the task's own, in front of the anchor row." : reasonOf(sequence, row, selection.cell);
    if (reason) panel.append(reasonBox(cell[0], reason));
    panel.append(element("h3", "", "Its row"));
  }
  const title = element("h2");
  title.append(element("bdi", "", rowName(row)));
  const time = row.time === null ? "always there" : shortTime(row.time[0]);
  const entries = [["time", time]];
  if (row.time !== null && cutoff(sequence) !== null) entries.push(["", againstCutoff(row.time[1], sequence)]);
  entries.push(["in the sequence", `row ${selection.row}, ${count(row.cells.filter((cell) => cell[1] >= 0).length, "cell")}`], ["RowIdx", `${row.row}`]);
  if (row.known) entries.push(["label known", row.known[1] === null ? "never" : shortTime(row.known[0])], ["split", row.split]);
  const kind = selection.row > 0 ? "row" : !tableOf(row).is_task ? "anchor row" : row.split ? "the sequence's own seed" : "the request, which is not a seed of the store";
  panel.append(element("p", "kicker", kind), title, factList(entries));
  const example = exampleOf(sequence, selection.row);
  if (example) panel.append(reasonBox(SHOWN, example));
  if (row.time !== null && cutoff(sequence) !== null && row.time[1] > cutoff(sequence))
    panel.append(reasonBox(LATE, "This row is later than the observation time. As the anchor it is there all the same, with its cells null and its foreign keys hidden."));
  panel.append(...edgeList("Names", row.parents.map((edge) => edgeLine(sequence, edge, edge[1]))));
  panel.append(...edgeList("Named by", childrenOf(sequence, selection.row).map(({child, edge}) => edgeLine(sequence, edge, child))));
}

// ---- The tooltip ------------------------------------------------------------------------------------------

function showTooltip(event, lines) {
  tooltip.replaceChildren(...lines.map(([className, text]) => element("div", className, text)));
  placeTooltip(event.clientX, event.clientY);
}

function hideTooltip() {
  tooltip.hidden = true;
}

function tooltipOf(sequence, number, index) {
  const row = sequence.rows[number];
  if (index === null) {
    const when = row.time === null ? "always there" : `${shortTime(row.time[0])} · ${againstCutoff(row.time[1], sequence)}`;
    return [["what", rowName(row)], ["soft", when.replace(/ · $/, "")]];
  }
  const {column, cell} = cellFacts(sequence, row, index);
  const lines = [["what", valueText(column, cell[2])], ["soft", `${column.name} of ${rowName(row)} · ${column.stype}` + (cell[1] < 0 ? "" : ` · position ${cell[1]}`)]];
  if (column.about) lines.push(["soft", column.about]);
  const reason = index < 0 ? "The target: what the model is to predict." : reasonOf(sequence, row, index);
  if (reason) lines.push([cell[0] === LATE ? "late" : "soft", reason]);
  return lines;
}
