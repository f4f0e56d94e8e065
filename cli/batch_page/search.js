// What can be found in the sequences of the page: rows by table and key, cells by column and value. Matches in the
// sequence that is shown come first.

function includesText(text, wanted) {
  return text !== null && text.toLowerCase().includes(wanted);
}

// Every match of one sequence goes to `add`: {sequence, row, cell, text}.
function findIn(sequence, number, wanted, add) {
  sequence.rows.forEach((row, rowNumber) => {
    const name = rowName(row);
    if (includesText(name, wanted)) add({sequence: number, row: rowNumber, cell: null, text: name});
    row.cells.forEach((cell, index) => {
      const column = columnOf(row, index), value = valueText(column, cell[2]);
      if (includesText(value, wanted) && cell[2] !== null || includesText(column.name, wanted))
        add({sequence: number, row: rowNumber, cell: index, text: `${column.name}: ${value}`});
    });
  });
}

// {listed, count}, or null for no text.
function findAll(wanted, first) {
  if (wanted === "") return null;
  const found = {listed: [], count: 0};
  const add = (match) => {
    found.count++;
    if (found.listed.length < LISTED_MAX) found.listed.push(match);
  };
  const order = batch.sequences.map((_, number) => number).sort((a, b) => (b === first) - (a === first) || a - b);
  for (const number of order) findIn(batch.sequences[number], number, wanted, add);
  return found;
}

// Its text, and where it is.
function describeMatch(match) {
  const sequence = batch.sequences[match.sequence];
  const where = [rowName(sequence.rows[match.row]), `sequence ${stepOf(sequence).sequences.indexOf(sequence) + 1}`];
  if (match.cell === null) where.shift();
  if (batch.steps.length > 1) where.push(`batch ${sequence.step + 1}`);
  return [match.text, where.join(" · ")];
}
