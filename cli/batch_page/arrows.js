// Foreign keys as arrows: from the line of the key to the head of the card that it names. Dashed where the model does
// not see it: red where it is not known yet, grey where the task hides it.

const arrows = document.getElementById("arrows");

function arrowHead(id, colour) {
  const marker = svg("marker", {id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8,
                                markerUnits: "userSpaceOnUse", orient: "auto-start-reverse"});
  marker.append(svg("path", {d: "M0 0.5 8 4 0 7.5 2 4z", style: `fill:${colour};stroke:none;opacity:1`}));
  return marker;
}

// Where an arrow leaves a card: at the line of its key, or at the head where the column is not shown.
function startOf(place, row, edge) {
  const column = batch.edges[edge[0]].column;
  const index = column === null ? -2 : column - tableOf(row).column_start;
  const line = place.lines.findIndex((shown) => shown.index === index);
  return place.y + (line < 0 ? HEAD_HEIGHT / 2 : HEAD_HEIGHT + 3 + (line + 0.5) * CELL_HEIGHT);
}

function pathBetween(from, y0, to) {
  const y1 = to.y + HEAD_HEIGHT / 2;
  if (from === to) {
    const x = from.x + CARD_WIDTH;
    return `M${x} ${y0}C${x + 46} ${y0} ${x + 46} ${y1} ${x} ${y1}`;
  }
  if (Math.abs(from.x - to.x) < CARD_WIDTH) { // in one column: around the left side
    const bend = 34 + Math.min(40, Math.abs(y1 - y0) / 12);
    return `M${from.x} ${y0}C${from.x - bend} ${y0} ${to.x - bend} ${y1} ${to.x} ${y1}`;
  }
  const isRight = to.x > from.x;
  const x0 = isRight ? from.x + CARD_WIDTH : from.x;
  const x1 = isRight ? to.x : to.x + CARD_WIDTH;
  const bend = Math.max(36, Math.abs(x1 - x0) * 0.42) * (isRight ? 1 : -1);
  return `M${x0} ${y0}C${x0 + bend} ${y0} ${x1 - bend} ${y1} ${x1} ${y1}`;
}

function drawArrows(sequence, layout, withHidden) {
  const head = svg("defs");
  head.append(arrowHead("head", "var(--arrow)"), arrowHead("head-late", "var(--late)"), arrowHead("head-lit", "var(--accent)"));
  arrows.replaceChildren(head);
  arrows.setAttribute("width", layout.width);
  arrows.setAttribute("height", layout.height);
  sequence.rows.forEach((row, number) => row.parents.forEach((edge) => {
    const from = layout.places[number], to = layout.places[edge[1]];
    if (!from || !to || edge[2] !== EDGE_SHOWN && !withHidden) return;
    const path = svg("path", {d: pathBetween(from, startOf(from, row, edge), to)});
    path.dataset.child = number;
    path.dataset.parent = edge[1];
    path.dataset.state = edge[2];
    if (edge[2] === EDGE_LATE) path.classList.add("is-late");
    if (edge[2] === EDGE_HIDDEN) path.classList.add("is-out");
    setArrowHead(path);
    arrows.append(path);
  }));
}

function setArrowHead(path) {
  const isLate = path.classList.contains("is-late");
  const name = isLate ? "head-late" : path.classList.contains("is-lit") ? "head-lit" : "head";
  path.setAttribute("marker-end", `url(#${name})`);
}

// Lights up what belongs to a row; null puts all lights out. While the pointer is on a row, the others step back.
function lightUp(number, isHovered) {
  const rows = new Set(number === null ? [] : [number]);
  for (const path of arrows.querySelectorAll("path[data-child]")) {
    const isOwn = number !== null && (+path.dataset.child === number || +path.dataset.parent === number);
    path.classList.toggle("is-lit", isOwn);
    setArrowHead(path);
    if (isOwn) rows.add(+path.dataset.child).add(+path.dataset.parent);
  }
  for (const card of canvas.querySelectorAll(".card")) card.classList.toggle("is-lit", rows.has(+card.dataset.row));
  canvas.classList.toggle("is-hovered", isHovered);
}
