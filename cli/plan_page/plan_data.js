// The plan as the program wrote it, and what is derived from it: a model for each arena, built when it is first
// shown. Numbers up to 2^64 - 1 stand in the file exactly: columns are little-endian arrays of 1, 2, 4 or 8 bytes,
// single numbers are decimal strings. Drawing uses doubles; texts use the exact values.

const plan = data;

function readColumn(column) {
  const text = atob(column.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const kinds = {1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: BigUint64Array};
  return new kinds[column.width](bytes.buffer);
}

const tensors = {ids: plan.ids};
for (const name of Object.keys(plan.tensors)) tensors[name] = readColumn(plan.tensors[name]);
const endOfTime = Math.max(1, Number(plan.end));

// Where each tensor's dimensions begin in tensors.shape.
const shapeStart = new Uint32Array(tensors.ids.length + 1);
for (let i = 0; i < tensors.ids.length; i++) shapeStart[i + 1] = shapeStart[i] + Number(tensors.rank[i]);

const arenaModels = plan.arenas.map(() => null);

// Where operators run again: 0 for a tensor that is kept, 1 for one that is dropped and made again later, 2 for what is
// made again ("h.again1" of "h"). Where tensors are paged: 3 for one that goes to the host, 4 for its copy there
// ("h.host"), 5 for what is there again, from the host or made again.
const AGAIN = ["kept", "dropped, made again later", "made again", "goes to the host", "on the host",
               "back from the host, or made again"];
const again = new Uint8Array(tensors.ids.length);
if (plan.remat) {
  const place = new Map(tensors.ids.map((id, i) => [id, i]));
  tensors.ids.forEach((id, i) => {
    const name = id.replace(/\.again[0-9]+$/, "");
    if (name === id || !place.has(name)) return;
    again[i] = 2;
    again[place.get(name)] = 1;
  });
  tensors.ids.forEach((id, i) => {
    const name = id.replace(/\.host$/, "");
    if (name === id || !place.has(name) || plan.arenas[Number(tensors.arena[i])].name !== "host") return;
    again[i] = 4;
    again[place.get(name)] = 3;
    for (let k = 1; place.has(`${name}.again${k}`); k++) again[place.get(`${name}.again${k}`)] = 5;
  });
}

function roundUp(size, alignment) {
  return Math.ceil(size / alignment) * alignment;
}

// A tensor that has no bytes of its own lies in those of its owner.
function isAlias(tensor) {
  return Number(tensors.owner[tensor]) !== tensor;
}

// Members stand by packed offset, so that boxes drawn one after the other lie near each other in the picture, and an
// alias after its owner, so that it is drawn over it.
function membersByOffset(arenaIndex) {
  const members = [];
  for (let i = 0; i < tensors.ids.length; i++) if (Number(tensors.arena[i]) === arenaIndex) members.push(i);
  const offset = Float64Array.from(tensors.offset, Number);
  members.sort((a, b) => offset[a] - offset[b] || isAlias(a) - isAlias(b) || a - b);
  return Uint32Array.from(members);
}

function orderBySize(member, height) {
  const own = Array.from(height, (_, k) => k).filter((k) => !isAlias(member[k]));
  return Uint32Array.from(own).sort((a, b) => height[b] - height[a] || a - b);
}

// Bytes live at each position, each counted once: those of owners. An overwritten input dies where its output is born, so sums of tensors are
// sums of buffers too.
function sumLiveBytes(model) {
  const live = new Float64Array(endOfTime + 1);
  for (const k of model.bySize) {
    live[model.birth[k]] += model.height[k];
    live[model.death[k]] -= model.height[k];
  }
  for (let position = 1; position <= endOfTime; position++) live[position] += live[position - 1];
  return live.subarray(0, endOfTime);
}

function indexOfLargest(values) {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
}

// Everything that is drawn of an arena. `member[k]` is the number in the plan of its k-th tensor, `bySize` lists the k
// of those with bytes of their own, from the largest down.
function arenaModel(arenaIndex) {
  if (arenaModels[arenaIndex]) return arenaModels[arenaIndex];
  const arena = plan.arenas[arenaIndex];
  const alignment = Number(arena.alignment);
  const slotOffset = Float64Array.from(readColumn(arena.slot_offset), Number);
  const member = membersByOffset(arenaIndex);
  const pick = (column) => Float64Array.from(member, (i) => Number(column[i]));
  const model = {
    index: arenaIndex, name: arena.name, count: member.length, member,
    birth: pick(tensors.birth), death: pick(tensors.death), packedOffset: pick(tensors.offset),
    slotOffset: Float64Array.from(member, (i) => slotOffset[Number(tensors.slot[i])] + Number(tensors.offset[i])
      - Number(tensors.offset[Number(tensors.owner[i])])),
    height: Float64Array.from(member, (i) => isAlias(i) ? Number(tensors.size[i]) : roundUp(Number(tensors.size[i]), alignment)),
    slotAddress: readColumn(arena.slot_address),
    lowerBound: Number(arena.lower_bound), peak: Number(arena.peak_bytes), slotBytes: Number(arena.slot_bytes),
    capacity: arena.capacity === null ? null : Number(arena.capacity), budget: Number(arena.budget),
  };
  model.bySize = orderBySize(member, model.height);
  model.live = sumLiveBytes(model);
  model.peakPosition = indexOfLargest(model.live);
  arenaModels[arenaIndex] = model;
  return model;
}

function placeInModel(model, tensor) {
  return model.member.indexOf(tensor);
}

// ---- Texts ------------------------------------------------------------------------------------------------

function formatBytes(bytes) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let unit = 0;
  let value = bytes;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  if (unit === 0) return count(value, "byte");
  return value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0) + " " + units[unit];
}

function formatShare(part, whole) {
  if (!(whole > 0)) return "0 %";
  const percent = 100 * part / whole;
  return (percent >= 9.95 ? percent.toFixed(0) : percent.toFixed(percent >= 0.095 || percent === 0 ? 1 : 2)) + " %";
}

function shapeText(tensor) {
  if (tensors.shape.length === 0 && plan.types[tensors.type[tensor]] === "unknown") return "unknown";
  const dimensions = Array.from(tensors.shape.subarray(shapeStart[tensor], shapeStart[tensor + 1]), String);
  return dimensions.length === 0 ? "scalar" : dimensions.join(" × ");
}

function typeText(tensor) {
  return plan.types[tensors.type[tensor]];
}

// "f32 64 × 256"; a saved plan may have neither.
function kindText(tensor) {
  const [type, shape] = [typeText(tensor), shapeText(tensor)];
  return type === "unknown" && shape === "unknown" ? "shape not saved" : `${type} ${shape}`;
}

// [label, text] pairs: what there is to know about a tensor.
function tensorFacts(tensor) {
  const exactSize = BigInt(tensors.size[tensor]);
  const birth = Number(tensors.birth[tensor]);
  const death = Number(tensors.death[tensor]);
  const model = arenaModel(Number(tensors.arena[tensor]));
  const address = BigInt(model.slotAddress[Number(tensors.slot[tensor])]);
  return [
    ["shape", shapeText(tensor)],
    ["dtype", typeText(tensor)],
    ["size", formatBytes(Number(exactSize)) + (exactSize >= 1024n ? ` (${whole(exactSize)} bytes)` : "")],
    ["lifetime", `[${whole(birth)}, ${whole(death)}), ${count(death - birth, "position")}`],
    ["offset", whole(BigInt(tensors.offset[tensor]))],
    ["slot", whole(BigInt(tensors.slot[tensor])) + ` at 0x${address.toString(16).padStart(16, "0")}`],
    ["role", `${plan.roles[tensors.role[tensor]]} in ${model.name}`],
    ...(isAlias(tensor) ? [["in the place of", tensors.ids[Number(tensors.owner[tensor])]]] : []),
    ...(again[tensor] ? [[again[tensor] > 2 ? "paged" : "recomputed", AGAIN[again[tensor]]]] : []),
  ];
}
