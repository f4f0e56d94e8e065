// The boxes, drawn by hand into an array of pixels, so that a frame costs about the same whether 100 or 100,000 tensors
// are in view. A box of at least a pixel each way is filled, with its edges rounded to pixels, so that neighbours meet
// exactly. A thinner one adds the share of the pixels that it covers, and its colour, to sums; crowds of thin boxes so
// read as density. It would still be many pixels long, so the sums are kept as differences: a box adds at its one end
// and takes away behind its other, and one sweep over the picture adds them up.

const LABELS_MAX = 400;
const LEAST_COVERAGE = 0.14; // so that a lone thin box can be seen
const WHOLE = 65536;         // coverage of a whole pixel; sums are integers, so that they come back to 0 exactly

// Differences for boxes flatter than a pixel run along rows, those for narrower ones along columns. Four numbers a
// pixel: coverage, red, green, blue. Rows from columnsFrom to columnsTo hold differences of columns.
const thin = {width: 0, height: 0, rows: null, columns: null, columnSums: null, isRowUsed: null,
              columnsFrom: 0, columnsTo: 0};

function prepareThin(width, height) {
  if (thin.width === width && thin.height === height) return;
  Object.assign(thin, {width, height, rows: new Int32Array(4 * (width + 1) * height),
                       columns: new Int32Array(4 * (width + 1) * (height + 1)), columnSums: new Int32Array(4 * width),
                       isRowUsed: new Uint8Array(height), columnsFrom: height, columnsTo: 0});
}

function addDifference(sums, start, end, colour, coverage) {
  const red = (colour & 255) * coverage;
  const green = (colour >> 8 & 255) * coverage;
  const blue = (colour >> 16 & 255) * coverage;
  sums[start] += coverage;
  sums[start + 1] += red;
  sums[start + 2] += green;
  sums[start + 3] += blue;
  sums[end] -= coverage;
  sums[end + 1] -= red;
  sums[end + 2] -= green;
  sums[end + 3] -= blue;
}

// A box whose edges, rounded to x0, y0, x1, y1, fall together in one direction or in both.
function addThinBox(left, top, right, bottom, x0, y0, x1, y1, colour) {
  const stride = thin.width + 1;
  const share = (y1 === y0 ? bottom - top : 1) * (x1 === x0 ? right - left : 1);
  const coverage = Math.max(1, Math.round(share * WHOLE));
  const column = Math.min(Math.floor((left + right) / 2), thin.width - 1);
  if (y1 === y0) {
    const row = Math.min(Math.floor((top + bottom) / 2), thin.height - 1);
    const first = 4 * (row * stride + (x1 > x0 ? x0 : column));
    addDifference(thin.rows, first, first + 4 * Math.max(x1 - x0, 1), colour, coverage);
    thin.isRowUsed[row] = 1;
  } else {
    addDifference(thin.columns, 4 * (y0 * stride + column), 4 * (y1 * stride + column), colour, coverage);
    if (y0 < thin.columnsFrom) thin.columnsFrom = y0;
    if (y1 > thin.columnsTo) thin.columnsTo = y1;
  }
}

// Adds the differences up and lays the result over the picture; leaves them all 0 for the next time.
function drawThinBoxes(pixels, leastCoverage) {
  const {width, height, rows, columns} = thin;
  thin.columnSums.fill(0);
  for (let y = 0; y < height; y++) {
    const start = 4 * y * (width + 1);
    const end = start + 4 * (width + 1);
    if (y >= thin.columnsFrom && y < thin.columnsTo) {
      for (let x = 0; x < 4 * width; x++) thin.columnSums[x] += columns[start + x];
      drawThinRow(pixels, y, start, leastCoverage, true);
      columns.fill(0, start, end);
    } else if (thin.isRowUsed[y] === 1) {
      drawThinRow(pixels, y, start, leastCoverage, false);
    }
    if (thin.isRowUsed[y] === 1) rows.fill(0, start, end);
  }
  if (thin.columnsTo > 0) columns.fill(0, 4 * thin.columnsTo * (width + 1), 4 * (thin.columnsTo + 1) * (width + 1));
  thin.isRowUsed.fill(0);
  Object.assign(thin, {columnsFrom: height, columnsTo: 0});
}

function drawThinRow(pixels, y, start, leastCoverage, withColumns) {
  const {width, rows, columnSums} = thin;
  let coverage = 0, red = 0, green = 0, blue = 0;
  for (let x = 0, at = start, pixel = y * width; x < width; x++, at += 4, pixel++) {
    coverage = coverage + rows[at] | 0;
    red = red + rows[at + 1] | 0;
    green = green + rows[at + 2] | 0;
    blue = blue + rows[at + 3] | 0;
    const total = withColumns ? coverage + columnSums[4 * x] | 0 : coverage;
    if (total === 0) continue;
    const under = pixels[pixel];
    const share = Math.min(Math.max(total / WHOLE, leastCoverage), 1);
    const scale = share / total;
    const r = (under & 255) * (1 - share) + (withColumns ? red + columnSums[4 * x + 1] : red) * scale;
    const g = (under >> 8 & 255) * (1 - share) + (withColumns ? green + columnSums[4 * x + 2] : green) * scale;
    const b = (under >> 16 & 255) * (1 - share) + (withColumns ? blue + columnSums[4 * x + 3] : blue) * scale;
    pixels[pixel] = 255 << 24 | b << 16 | g << 8 | r;
  }
}

// Edges run along the right and the top, and only where they leave most of the box to its fill.
function fillBox(pixels, width, x0, y0, x1, y1, fill, edge, line) {
  const rightEdge = x1 - x0 >= 5 * line ? line : 0;
  const topEdge = y1 - y0 >= 4 * line ? line : 0;
  for (let y = y0; y < y1; y++) {
    const row = y * width;
    if (y < y0 + topEdge) {
      pixels.fill(edge, row + x0, row + x1);
    } else {
      pixels.fill(fill, row + x0, row + x1 - rightEdge);
      if (rightEdge) pixels.fill(edge, row + x1 - rightEdge, row + x1);
    }
  }
}

// Draws the boxes for which `isDrawn` is 1 (all, where it is null) and adds those with room for a label to `labelled`.
// `view` is {t0, t1, b0, b1}: positions across, bytes up.
function drawSomeBoxes(image, model, offset, fill, edge, view, ratio, isDrawn, labelled) {
  const pixels = new Uint32Array(image.data.buffer);
  const {width, height} = image;
  const perPosition = width / (view.t1 - view.t0);
  const perByte = height / (view.b1 - view.b0);
  const line = ratio > 1.5 ? 2 : 1;
  const {birth, death, height: size} = model;
  for (let k = 0; k < model.count; k++) {
    const low = offset[k];
    const high = low + size[k];
    if (birth[k] >= view.t1 || death[k] <= view.t0 || low >= view.b1 || high <= view.b0 || high === low) continue;
    if (isDrawn && isDrawn[k] === 0) continue;
    const left = Math.max((birth[k] - view.t0) * perPosition, 0);
    const right = Math.min((death[k] - view.t0) * perPosition, width);
    const top = Math.max(height - (high - view.b0) * perByte, 0);
    const bottom = Math.min(height - (low - view.b0) * perByte, height);
    const x0 = Math.round(left), x1 = Math.round(right), y0 = Math.round(top), y1 = Math.round(bottom);
    if (x1 === x0 || y1 === y0) {
      addThinBox(left, top, right, bottom, x0, y0, x1, y1, fill[k]);
    } else {
      fillBox(pixels, width, x0, y0, x1, y1, fill[k], edge[k], line);
      if (labelled && x1 - x0 >= 44 * ratio && y1 - y0 >= 14 * ratio) labelled.push({k, x0, y0, x1, y1});
    }
  }
}

// Draws all boxes; while a search is on, its matches come last, over the others. Returns the boxes to label.
function drawBoxes(image, model, offset, colours, view, ratio, isMatch) {
  const pixels = new Uint32Array(image.data.buffer);
  const labelled = [];
  prepareThin(image.width, image.height);
  if (isMatch) {
    drawSomeBoxes(image, model, offset, colours.faint, colours.faint, view, ratio, null, null);
    drawThinBoxes(pixels, LEAST_COVERAGE);
  }
  drawSomeBoxes(image, model, offset, colours.fill, colours.edge, view, ratio, isMatch, labelled);
  drawThinBoxes(pixels, isMatch ? 1 : LEAST_COVERAGE);
  labelled.sort((a, b) => (b.x1 - b.x0) * (b.y1 - b.y0) - (a.x1 - a.x0) * (a.y1 - a.y0));
  return labelled.slice(0, LABELS_MAX);
}

// The arena's own ground, from address 0 to `extent` and over all of time; outside of it the paper shows.
function clearGround(image, view, extent, ground, paper) {
  const pixels = new Uint32Array(image.data.buffer);
  const perPosition = image.width / (view.t1 - view.t0);
  const perByte = image.height / (view.b1 - view.b0);
  const clamp = (value, most) => Math.min(Math.max(Math.round(value), 0), most);
  const x0 = clamp(-view.t0 * perPosition, image.width);
  const x1 = clamp((endOfTime - view.t0) * perPosition, image.width);
  const y0 = clamp(image.height - (extent - view.b0) * perByte, image.height);
  const y1 = clamp(image.height + view.b0 * perByte, image.height);
  pixels.fill(paper);
  for (let y = y0; y < y1; y++) pixels.fill(ground, y * image.width + x0, y * image.width + x1);
}

// The tensor under a point, or the nearest within `reach` pixels of one too thin to hit; -1 where there is none. An
// alias, drawn later than its owner, is the one that is hit.
function boxAt(model, offset, view, size, x, y, reach) {
  const position = view.t0 + x / size.width * (view.t1 - view.t0);
  const address = view.b0 + (size.height - y) / size.height * (view.b1 - view.b0);
  const aroundPosition = reach / size.width * (view.t1 - view.t0);
  const aroundAddress = reach / size.height * (view.b1 - view.b0);
  let nearest = -1;
  let distance = 1;
  for (let k = model.count - 1; k >= 0; k--) {
    const dt = Math.max(model.birth[k] - position, position - model.death[k], 0) / aroundPosition;
    if (dt > 1) continue;
    const db = Math.max(offset[k] - address, address - offset[k] - model.height[k], 0) / aroundAddress;
    const total = dt * dt + db * db;
    if (total < distance && model.height[k] > 0) {
      distance = total;
      nearest = k;
      if (total === 0) return k;
    }
  }
  return nearest;
}
