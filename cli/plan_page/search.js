// Search by name: every tensor whose id holds the text, in any arena, is highlighted on the map; the list shows the
// first ones in the plan's order, and Enter jumps to the chosen one.

const LISTED_MAX = 60;

let lowerCaseIds = null;

// {all: Uint8Array over the plan's tensors, listed: the first LISTED_MAX numbers, count}, or null for no text.
// Ids that begin with the text come first in the list.
function findTensors(text) {
  const wanted = text.trim().toLowerCase();
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

function matchItem(tensor, index) {
  const arena = plan.arenas[Number(tensors.arena[tensor])].name;
  const detail = element("span", "detail", `${formatBytes(Number(tensors.size[tensor]))} · ${arena}`);
  const item = element("li", "", element("bdi", "name", tensors.ids[tensor]), detail);
  item.id = "match-" + index;
  item.role = "option";
  item.title = tensors.ids[tensor];
  item.dataset.tensor = tensor;
  return item;
}

// Wires the field. `onFound(result)` is told of every change, `onJump(tensor)` of every choice.
function startSearch(onFound, onJump) {
  const field = document.getElementById("search");
  const list = document.getElementById("matches");
  let chosen = -1;
  let found = null;

  function open(isOpen) {
    list.hidden = !isOpen;
    field.setAttribute("aria-expanded", String(isOpen));
  }

  function choose(index) {
    chosen = index;
    Array.from(list.children).forEach((item, i) => item.setAttribute("aria-selected", String(i === chosen)));
    if (chosen >= 0) list.children[chosen].scrollIntoView({block: "nearest"});
    if (chosen >= 0) field.setAttribute("aria-activedescendant", "match-" + chosen);
    else field.removeAttribute("aria-activedescendant");
  }

  function update() {
    found = findTensors(field.value);
    const count = found ? `${wholeNumber.format(found.count)} match${found.count === 1 ? "" : "es"}` : "";
    document.getElementById("match-count").textContent = count;
    list.replaceChildren(...(found ? found.listed.map(matchItem) : []));
    open(Boolean(found && found.count > 0));
    choose(found && found.count > 0 ? 0 : -1);
    onFound(found);
  }

  function jump(index) {
    if (!found || index < 0) return;
    choose(index);
    open(false);
    onJump(found.listed[index]);
  }

  function onKey(event) {
    const count = list.children.length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (count === 0) return;
      open(true);
      choose((chosen + (event.key === "ArrowDown" ? 1 : count - 1)) % count);
    } else if (event.key === "Enter") {
      // A closed list means that this match was jumped to already: go on to the next.
      jump(list.hidden && count > 0 ? (chosen + 1) % count : chosen);
    } else if (event.key === "Escape") {
      event.preventDefault();
      field.value = "";
      update();
    }
  }

  field.addEventListener("input", update);
  field.addEventListener("keydown", onKey);
  field.addEventListener("focus", () => open(Boolean(found && found.count > 0)));
  field.addEventListener("blur", () => open(false));
  list.addEventListener("pointerdown", (event) => {
    const item = event.target.closest("li");
    event.preventDefault();
    if (item) jump(Array.from(list.children).indexOf(item));
  });
}
