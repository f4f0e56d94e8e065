// The three attention masks over the cells of a sequence, before and after their permutation: same column; own row and
// the rows that it names; the rows that name it. A pixel is a cell's square, or many of them where there is no room:
// then it is as dark as they are full. Kernels skip empty tiles, so what counts is how many tiles are not empty.

const MOST_PIXELS = 512;
const MASKS = [
  {key: "col_perm", name: "Column", about: "Cells of the same column attend to each other. col_perm groups cells by column."},
  {key: "out_perm", name: "Outbound", about: "A cell attends to its own row and to the rows that its foreign keys name. out_perm orders rows by reverse Cuthill-McKee."},
  {key: "in_perm", name: "Inbound", about: "A cell attends to the rows whose foreign keys name its row. in_perm orders rows likewise, by number of children."},
];

function tileSize(cells) {
  return cells > 512 ? 64 : 16;
}

// For each cell group (a column, or a row) the groups that it attends to, and the group of each position.
function blocksOf(sequence, key) {
  const {rows, columns} = positionsOf(sequence);
  if (key === "col_perm") {
    const groups = [...new Set(columns)];
    const number = new Map(groups.map((column, i) => [column, i]));
    return {groupOf: Array.from(columns, (column) => number.get(column)), attends: groups.map((_, i) => [i])};
  }
  const attends = sequence.rows.map((_, number) => new Set(key === "out_perm" ? [number] : []));
  sequence.rows.forEach((row, number) => row.parents.forEach(([, parent, state]) => {
    if (state !== EDGE_SHOWN || parent < 0) return;
    if (key === "out_perm") attends[number].add(parent);
    else attends[parent].add(number);
  }));
  return {groupOf: Array.from(rows), attends: attends.map((set) => [...set])};
}

// Counts the pairs that attend, in squares of `scale` cells, when the cells stand in `order`.
function countPairs(blocks, order, scale) {
  const side = Math.ceil(order.length / scale);
  const places = blocks.attends.map(() => []);
  order.forEach((position, place) => places[blocks.groupOf[position]].push(place));
  const counts = new Uint32Array(side * side);
  blocks.attends.forEach((others, group) => {
    for (const other of others)
      for (const i of places[group]) {
        const line = Math.floor(i / scale) * side;
        for (const j of places[other]) counts[line + Math.floor(j / scale)]++;
      }
  });
  return {side, counts};
}

function fullTiles(blocks, order) {
  const {counts} = countPairs(blocks, order, tileSize(order.length));
  return counts.reduce((sum, pairs) => sum + (pairs > 0), 0) / Math.max(1, counts.length);
}

// Tiles that are in use are tinted.
function paintMask(target, blocks, order) {
  const scale = Math.ceil(order.length / MOST_PIXELS), tile = tileSize(order.length);
  const {side, counts} = countPairs(blocks, order, scale);
  const tiles = countPairs(blocks, order, tile);
  const colour = getComputedStyle(document.documentElement).getPropertyValue("--mask").trim().split(" ").map(Number);
  target.width = target.height = Math.max(1, side);
  const image = new ImageData(target.width, target.height);
  counts.forEach((pairs, i) => {
    const [line, column] = [Math.floor(i / side), i % side].map((place) => Math.floor(place * scale / tile));
    const strength = pairs ? 90 + 165 * Math.sqrt(Math.min(1, pairs / (scale * scale))) : tiles.counts[line * tiles.side + column] ? 26 : 0;
    image.data.set([...colour, strength], 4 * i);
  });
  target.getContext("2d").putImageData(image, 0, 0);
}

function identity(length) {
  return Uint16Array.from({length}, (_, i) => i);
}

function makeFigure(sequence, mask, blocks, isAfter) {
  const order = isAfter ? decodePermutation(sequence[mask.key]) : identity(sequence.cells);
  const figure = element("figure");
  const drawing = element("canvas");
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", `${mask.name} mask ${isAfter ? "after" : "before"} permutation`);
  drawing.dataset.mask = mask.key;
  drawing.dataset.after = isAfter;
  paintMask(drawing, blocks, order);
  drawing.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect();
    const at = [event.clientY - box.top, event.clientX - box.left]
      .map((offset) => Math.floor(offset / box.width * order.length)).map((i) => order[Math.min(Math.max(i, 0), order.length - 1)]);
    const attends = blocks.attends[blocks.groupOf[at[0]]].includes(blocks.groupOf[at[1]]);
    showTooltip(event, [["what", cellAt(sequence, at[0])], ["soft", attends ? "attends to" : "does not attend to"], ["what", cellAt(sequence, at[1])]]);
  });
  drawing.addEventListener("pointerleave", hideTooltip);
  const caption = element("figcaption");
  const share = element("span", "", "tiles in use ");
  share.append(element("b", "", `${(100 * fullTiles(blocks, order)).toFixed(1)} %`));
  caption.append(element("span", "", isAfter ? `after ${mask.key}` : "before"), share);
  figure.append(drawing, caption);
  return figure;
}

function cellAt(sequence, position) {
  const {rows, columns} = positionsOf(sequence);
  return `${batch.columns[columns[position]].name} of ${rowName(sequence.rows[rows[position]])} (position ${position})`;
}

function drawMasks(sequence) {
  const view = document.getElementById("masks-view");
  view.replaceChildren();
  if (sequence.cells === 0) {
    view.append(element("p", "", "This sequence is all padding: there is nothing to attend to."));
    return;
  }
  const tile = tileSize(sequence.cells);
  for (const mask of MASKS) {
    const section = element("section", "mask");
    const pair = element("div", "pair");
    const blocks = blocksOf(sequence, mask.key);
    pair.append(makeFigure(sequence, mask, blocks, false), makeFigure(sequence, mask, blocks, true));
    section.append(element("h2", "", mask.name), element("p", "", `${mask.about} Tiles are ${tile} × ${tile} cells.`), pair);
    view.append(section);
  }
}
