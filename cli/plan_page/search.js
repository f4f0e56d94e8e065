// Search by name: every tensor whose id holds the text, in any arena, is highlighted on the map; the list shows the
// first ones in the plan's order.

let lowerCaseIds = null;

// {all: Uint8Array over the plan's tensors, listed: the first LISTED_MAX numbers, count}, or null for no text.
// Ids that begin with the text come first in the list.
function findTensors(wanted) {
  if (wanted === "") return null;
  if (!lowerCaseIds) lowerCaseIds = tensors.ids.map((id) => id.toLowerCase());
  const found = {all: new Uint8Array(lowerCaseIds.length), listed: [], count: 0};
  const within = [];
  for (let i = 0; i < lowerCaseIds.length; i++) {
    const at = lowerCaseIds[i].indexOf(wanted);
    if (at < 0) continue;
    found.all[i] = 1;
    found.count++;
    if (at === 0 && found.listed.length < LISTED_MAX) found.listed.push(i);
    else if (at > 0 && within.length < LISTED_MAX) within.push(i);
  }
  found.listed = found.listed.concat(within).slice(0, LISTED_MAX);
  return found;
}

function describeTensor(tensor) {
  return [tensors.ids[tensor], `${formatBytes(Number(tensors.size[tensor]))} · ${plan.arenas[Number(tensors.arena[tensor])].name}`];
}
