// The report, and how its numbers are written.

const report = data.report;
const SPLITS = ["train", "val", "test"];

function bytes(number) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (number >= 1000 && unit < units.length - 1) {
    number /= 1000;
    unit++;
  }
  return `${unit ? number.toFixed(1) : number} ${units[unit]}`;
}

function percent(share) {
  const value = 100 * share;
  return `${value === 0 || value >= 9.95 ? Math.round(value) : value.toFixed(1)} %`;
}

// A number with four digits that say something, without powers of ten where they can be avoided.
function figure(number) {
  if (number === 0) return "0";
  const size = Math.abs(number);
  if (size >= 1e9 || size < 1e-3) return number.toExponential(2);
  return size >= 1000 ? whole(Math.round(number)) : String(+number.toPrecision(4));
}

function micros(text) {
  // Years beyond four digits, or before 0000, are no dates to JavaScript: their place on an axis does not matter.
  const value = Date.parse(text);
  return Number.isNaN(value) ? 0 : value;
}

function day(text) {
  return text.slice(0, text.indexOf("T") > 0 ? text.indexOf("T") : text.length);
}

// The mean of labels in words.
function labelText(task, split) {
  const labels = task.splits[split];
  if (labels.seeds === 0) return "empty";
  if (labels.seeds === labels.nulls) return "no labels";
  if (task.stype === "boolean") return `${percent(labels.mean)} true`;
  if (task.stype === "categorical") return `${shortened(task.classes[0].name)}: ${percent(labels.mean)}`;
  if (task.stype === "timestamp") return `${day(labels.least)} to ${day(labels.most)}`;
  return `mean ${figure(labels.mean)}`;
}

function shortened(text) {
  const characters = [...text];
  if (characters.length > 18) return characters.slice(0, 17).join("") + "…";
  return text || "(empty)";
}

function warningsOf(kind, name) {
  return data.warnings.filter((warning) => warning[kind] === name);
}
