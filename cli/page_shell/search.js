// The search field, of pages that have something to find. Enter goes to the chosen match and, given again, to the next.

const LISTED_MAX = 60;

// `label` says what can be found. `find(text)` gives {listed: the first LISTED_MAX matches, count}, or null for no text;
// `describe(match)` its name and a detail; `onFound` is told of every result, `onJump` of every match that is chosen.
function startSearch(label, {find, describe, onFound = () => {}, onJump}) {
  const field = document.getElementById("search"), list = document.getElementById("matches");
  let found = null, chosen = -1;
  field.placeholder = label;
  field.ariaLabel = list.ariaLabel = label;
  field.parentElement.hidden = false;

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

  function matchItem(match, index) {
    const [name, detail] = describe(match);
    const item = element("li", "", element("bdi", "name", name), element("span", "detail", detail));
    return Object.assign(item, {id: `match-${index}`, role: "option", title: name});
  }

  function update() {
    found = find(field.value.trim().toLowerCase());
    document.getElementById("match-count").textContent = found ? `${whole(found.count)} found` : "";
    list.replaceChildren(...(found ? found.listed.map(matchItem) : []));
    open(Boolean(found?.count));
    mark(found?.count ? 0 : -1);
    onFound(found);
  }

  function jump(index) {
    if (!found || index < 0) return;
    mark(index);
    open(false);
    onJump(found.listed[index]);
  }

  field.addEventListener("input", update);
  field.addEventListener("focus", () => open(Boolean(found?.count)));
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
