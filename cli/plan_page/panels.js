// What stands around the charts: the arena's numbers, the selected tensor, the table of what is live, the tooltip.

const ROWS_AT_ONCE = 100;

function gapNote(arena, model) {
  if (arena.optimal) return [model.peak === model.lowerBound ? "meets the bound: optimal" : "proven optimal", "good"];
  return [`${formatShare(model.peak - model.lowerBound, model.lowerBound)} above the bound`, ""];
}

function capacityStat(model) {
  const fits = model.peak <= model.capacity;
  const difference = formatBytes(Math.abs(model.capacity - model.peak));
  const note = fits ? `${difference} free` : `${difference} too little`;
  return stat("Capacity", formatBytes(model.capacity), note, fits ? "good" : "bad");
}

function showStats(model) {
  const arena = plan.arenas[model.index];
  const slots = Number(arena.slots);
  const saved = model.slotBytes - model.peak;
  const reuse = slots === model.count ? "no reuse" : `${(model.count / slots).toFixed(1)} tensors a slot`;
  const stats = [
    stat("Packed peak", formatBytes(model.peak), ...gapNote(arena, model)),
    stat("Lower bound", formatBytes(model.lowerBound), "most bytes live at once"),
    stat("Slots side by side", formatBytes(model.slotBytes), saved > 0
      ? `packing saves ${formatBytes(saved)} (${formatShare(saved, model.slotBytes)})` : "packing saves nothing"),
    stat("Tensors", whole(model.count), `${whole(Number(arena.max_live))} live at most`),
    stat("Slots", whole(slots), reuse),
    stat("Alignment", formatBytes(Number(arena.alignment)), "of every offset"),
  ];
  if (model.capacity !== null) stats.splice(2, 0, capacityStat(model));
  document.getElementById("stats").replaceChildren(...stats);
}

// ---- The selected tensor ----------------------------------------------------------------------------------

function showSelected(tensor) {
  const panel = document.getElementById("selected");
  if (tensor < 0) {
    panel.replaceChildren(element("p", "", "Click a box, a row of the table or a search result."));
    return;
  }
  const name = element("bdi", "name", tensors.ids[tensor]);
  name.title = tensors.ids[tensor];
  panel.replaceChildren(name, factList(tensorFacts(tensor)));
}

// ---- The table of live tensors ----------------------------------------------------------------------------

// From the largest down.
function liveAt(model, position) {
  return Array.from(model.bySize.filter((k) => model.birth[k] <= position && position < model.death[k]));
}

function tableRow(model, k, total, isSelected, choose) {
  const tensor = model.member[k];
  const size = Number(tensors.size[tensor]);
  const button = element("button", "name", element("bdi", "", tensors.ids[tensor]));
  button.type = "button";
  button.title = tensors.ids[tensor];
  const nameCell = element("td", "", button, element("small", "", kindText(tensor)));
  nameCell.style.setProperty("--share", `${total > 0 ? 100 * model.height[k] / total : 0}%`);
  const role = element("small", "", plan.roles[tensors.role[tensor]]);
  const share = element("small", "", formatShare(model.height[k], total));
  const row = element("tr", isSelected ? "is-selected" : "", nameCell,
                      element("td", "", `[${model.birth[k]}, ${model.death[k]})`, role),
                      element("td", "", formatBytes(size), share));
  row.dataset.tensor = tensor;
  row.addEventListener("click", () => choose(tensor));
  return row;
}

// Lists what is live at `position`; `rows` says how many rows at most. `actions` are choose(tensor), more() and peak().
function showLiveTable(model, position, isPeak, rows, selected, actions) {
  const live = liveAt(model, position);
  const total = model.live.length ? model.live[position] : 0;
  document.getElementById("table-title").textContent =
    `Live at ${isPeak ? "the peak, " : ""}position ${whole(position)}`;
  const note = document.getElementById("table-note");
  const sum = `${count(live.length, "tensor")}, ${formatBytes(total)}`;
  const ofPeak = total > 0 ? `${sum}: what has to shrink for a smaller peak.` : "Nothing takes memory here.";
  note.replaceChildren(isPeak ? ofPeak : `${sum}. `);
  if (!isPeak) {
    const back = element("button", "", "Back to the peak");
    back.type = "button";
    back.addEventListener("click", actions.peak);
    note.append(back);
  }
  document.getElementById("rows").replaceChildren(
    ...live.slice(0, rows).map((k) => tableRow(model, k, total, model.member[k] === selected, actions.choose)));
  const more = document.getElementById("more-rows");
  more.hidden = live.length <= rows;
  const next = whole(Math.min(ROWS_AT_ONCE, live.length - rows));
  more.textContent = `Show ${next} more of ${whole(live.length)}`;
  more.onclick = actions.more;
}

function markSelectedRow(selected) {
  for (const row of document.getElementById("rows").children)
    row.classList.toggle("is-selected", Number(row.dataset.tensor) === selected);
}

// ---- The tooltip ------------------------------------------------------------------------------------------

let tooltipTensor = -1;

function showTooltip(tensor, x, y) {
  tooltip.hidden = tensor < 0;
  if (tensor < 0) return;
  if (tensor !== tooltipTensor)
    tooltip.replaceChildren(element("bdi", "name", tensors.ids[tensor]), factList(tensorFacts(tensor)));
  tooltipTensor = tensor;
  placeTooltip(x, y);
}
