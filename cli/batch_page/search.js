// Search in all sequences of the page: rows by table and key, cells by column and value. Enter goes to the chosen match
// and, given again, to the next one. Matches in the sequence that is shown come first.

const LISTED_MAX = 60;

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
function findAll(text, first) {
  const wanted = text.trim().toLowerCase();
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

function matchItem(match, index) {
  const sequence = batch.sequences[match.sequence];
  const item = element("li");
  item.id = `match-${index}`;
  item.role = "option";
  const text = element("bdi", "name", match.text);
  const where = [rowName(sequence.rows[match.row]), `sequence ${stepOf(sequence).sequences.indexOf(sequence) + 1}`];
  if (match.cell === null) where.shift();
  if (batch.steps.length > 1) where.push(`batch ${sequence.step + 1}`);
  item.append(text, element("span", "detail", where.join(" · ")));
  return item;
}

// Wires the field. `currentSequence()` says what is shown, `onJump(match)` is told of every choice.
function startSearch(currentSequence, onJump) {
  const field = document.getElementById("search"), list = document.getElementById("matches");
  let found = null, chosen = -1;

  function open(isOpen) {
    list.hidden = !isOpen;
    field.setAttribute("aria-expanded", String(isOpen));
  }

  function mark(index) {
    chosen = index;
    Array.from(list.children).forEach((item, i) => item.setAttribute("aria-selected", String(i === chosen)));
    if (chosen < 0) return field.removeAttribute("aria-activedescendant");
    list.children[chosen].scrollIntoView({block: "nearest"});
    field.setAttribute("aria-activedescendant", `match-${chosen}`);
  }

  function update() {
    found = findAll(field.value, currentSequence());
    document.getElementById("match-count").textContent = found ? `${found.count.toLocaleString("en")} found` : "";
    list.replaceChildren(...(found ? found.listed.map(matchItem) : []));
    open(Boolean(found && found.count));
    mark(found && found.count ? 0 : -1);
  }

  function jump(index) {
    if (!found || index < 0) return;
    mark(index);
    open(false);
    onJump(found.listed[index]);
  }

  field.addEventListener("input", update);
  field.addEventListener("focus", () => open(Boolean(found && found.count)));
  field.addEventListener("blur", () => open(false));
  field.addEventListener("keydown", (event) => {
    const total = list.children.length;
    if ((event.key === "ArrowDown" || event.key === "ArrowUp") && total) {
      event.preventDefault();
      open(true);
      mark((chosen + (event.key === "ArrowDown" ? 1 : total - 1)) % total);
    } else if (event.key === "Enter") {
      jump(list.hidden && total ? (chosen + 1) % total : chosen); // a closed list: this match was gone to already
    } else if (event.key === "Escape") {
      event.preventDefault();
      field.value = "";
      update();
      field.blur();
    }
  });
  list.addEventListener("pointerdown", (event) => {
    const item = event.target.closest("li");
    event.preventDefault();
    if (item) jump(Array.from(list.children).indexOf(item));
  });
}
