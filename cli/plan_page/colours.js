// Colours of boxes: a ramp for lifetime and size, a palette for role, dtype and name prefix. Boxes are drawn into
// memory as 32-bit pixels, so colours are packed as 0xAABBGGRR, the order of ImageData on little-endian machines.

const RAMPS = {
  light: ["#a9dccb", "#6cbfc4", "#4698c6", "#4f6fbf", "#7a4bb0", "#a8327e"],
  dark: ["#2f6f6a", "#2f8c9b", "#3f9ed0", "#7d97ec", "#bf8cf0", "#f58cc2"],
};
const PALETTES = {
  light: ["#4698c6", "#e0913a", "#5aa469", "#a45fb5", "#d0605e", "#3aa6a0", "#8d7b68", "#7180c9", "#b4a338", "#c8679f"],
  dark: ["#5aaee0", "#eda55c", "#78c088", "#c084d0", "#e98582", "#55c4bc", "#b3a08b", "#94a1ea", "#d2c257", "#e58bbd"],
};

function hexToRgb(hex) {
  const value = parseInt(hex.slice(1), 16);
  return [value >> 16, value >> 8 & 255, value & 255];
}

function mix(a, b, share) {
  return [0, 1, 2].map((i) => a[i] + (b[i] - a[i]) * share);
}

function packed(rgb) {
  return (255 << 24 | Math.round(rgb[2]) << 16 | Math.round(rgb[1]) << 8 | Math.round(rgb[0])) >>> 0;
}

// The page's own colours, as the theme has them; a change of the theme empties the cache.
const cssColours = new Map();

function cssColour(name) {
  if (!cssColours.has(name))
    cssColours.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return cssColours.get(name);
}

function rampColour(share) {
  const stops = RAMPS[theme()].map(hexToRgb);
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(place), stops.length - 2);
  return mix(stops[low], stops[low + 1], place - low);
}

function hashText(text) {
  let hash = 2166136261;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
  return hash >>> 0;
}

// The name without its last part, its gradient's suffix and numbers at its end: tensors of a layer share it.
function namePrefix(id) {
  const stem = id.replace(/\.grad$/, "");
  const cut = Math.max(stem.lastIndexOf("."), stem.lastIndexOf("/"), stem.lastIndexOf(":"));
  return cut > 0 ? stem.slice(0, cut) : stem.replace(/[0-9_]+$/, "");
}

// Half of it is the length of a life, half how many tensors live shorter: the ramp is used in full where all lives are
// brief, and a single long one still stands out.
function lifetimeShare(model) {
  const sorted = Float64Array.from(model.birth, (birth, k) => model.death[k] - birth).sort();
  const shorter = new Map();
  sorted.forEach((length, place) => { if (!shorter.has(length)) shorter.set(length, place / sorted.length); });
  return (k) => {
    const length = model.death[k] - model.birth[k];
    return (Math.sqrt(length / endOfTime) + shorter.get(length)) / 2;
  };
}

// How the model's k-th tensor is coloured: {ramp: k -> share on the ramp}, or {classOf: k -> number for the palette}.
function colourRule(model, colouring) {
  const largest = Math.log2(1 + Math.max(1, model.count ? model.height[model.bySize[0]] : 1));
  const smallest = Math.log2(1 + Math.max(1, model.count ? model.height[model.bySize.at(-1)] : 1));
  switch (colouring) {
  case "size":
    return {ramp: (k) => (Math.log2(1 + model.height[k]) - smallest) / Math.max(largest - smallest, 1e-9)};
  case "role":
    return {classOf: (k) => tensors.role[model.member[k]]};
  case "type":
    return {classOf: (k) => tensors.type[model.member[k]]};
  case "again":
    return {classOf: (k) => again[model.member[k]]};
  case "prefix":
    return {classOf: (k) => hashText(namePrefix(tensors.ids[model.member[k]]))};
  default:
    return {ramp: lifetimeShare(model)};
  }
}

// Pixels for each tensor: its fill, its edge, and the fill it has while it is not among the search's matches.
// Neighbours of one colour are told apart by a little lightness.
function colourBoxes(model, colouring) {
  const rule = colourRule(model, colouring);
  const palette = PALETTES[theme()].map(hexToRgb);
  const ground = hexToRgb(cssColour("--arena"));
  const ramp = Array.from({length: 257}, (_, i) => rampColour(i / 256));
  const colours = {fill: new Uint32Array(model.count), edge: new Uint32Array(model.count),
                   faint: new Uint32Array(model.count), isLight: new Uint8Array(model.count)};
  for (let k = 0; k < model.count; k++) {
    const base = rule.ramp ? ramp[Math.round(256 * Math.min(Math.max(rule.ramp(k), 0), 1))]
                           : palette[rule.classOf(k) % palette.length];
    const shade = (Math.imul(model.member[k] + 1, 2654435761) >>> 24) / 255;
    const fill = mix(base, theme() === "dark" ? [0, 0, 0] : [255, 255, 255], 0.16 * shade);
    colours.fill[k] = packed(fill);
    colours.edge[k] = packed(mix(fill, ground, 0.55));
    colours.faint[k] = packed(mix(fill, ground, 0.84));
    colours.isLight[k] = 0.299 * fill[0] + 0.587 * fill[1] + 0.114 * fill[2] > 140 ? 1 : 0;
  }
  return colours;
}

// ---- The legend -------------------------------------------------------------------------------------------

function legendItem(colour, text) {
  const item = document.createElement("span");
  const chip = document.createElement("i");
  chip.style.background = colour;
  item.append(chip, text);
  return item;
}

function drawLegend(model, colouring) {
  const legend = document.getElementById("legend");
  legend.replaceChildren();
  if (colouring === "lifetime" || colouring === "size") {
    const ramp = document.createElement("i");
    ramp.className = "ramp";
    ramp.style.background = `linear-gradient(90deg, ${RAMPS[theme()].join(", ")})`;
    legend.append(...(colouring === "size" ? ["small", ramp, "large"] : ["brief", ramp, "long-lived"]));
  } else if (colouring !== "prefix") {
    const [names, column] = {role: [plan.roles, tensors.role], type: [plan.types, tensors.type],
                             again: [AGAIN, again]}[colouring];
    const present = new Set(Array.from(model.member, (i) => column[i]));
    const palette = PALETTES[theme()];
    for (const value of Array.from(present).sort((a, b) => a - b))
      legend.append(legendItem(palette[value % palette.length], names[value]));
  }
}
