// What the pages share: the data, elements and numbers, the theme, the help, keys, the tooltip. Every text in the data is
// a stranger's: it reaches the page as text alone, never as markup.

const written = document.querySelector("script[type='application/json']");
const data = JSON.parse(written.textContent);
written.textContent = "";

// ---- Elements ---------------------------------------------------------------------------------------------

function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children.filter((child) => child !== undefined && child !== null));
  return made;
}

function whole(number) {
  return number.toLocaleString("en");
}

function count(number, noun) {
  return `${whole(number)} ${noun}${number === 1 ? "" : "s"}`;
}

// A number with its name above and a note below.
function stat(label, value, note, className = "") {
  return element("div", `stat ${className}`, element("span", "label", label),
                 element("span", "value", element("bdi", "", value)), element("span", "note", note || "\u00a0"));
}

// [term, text] pairs; a third item that is true marks what is bad.
function factList(facts) {
  const list = element("dl", "facts");
  for (const [term, text, isBad] of facts)
    list.append(element("dt", "", term), element("dd", isBad ? "bad" : "", element("bdi", "", text)));
  return list;
}

function showHeading(title, documentTitle, subtitle) {
  document.title = documentTitle;
  document.querySelector("#title bdi").textContent = title;
  document.getElementById("subtitle").textContent = subtitle;
}

function hash(name, hex) {
  return element("span", "", `${name} `, element("span", "hex", hex));
}

// ---- The tooltip ------------------------------------------------------------------------------------------

const tooltip = document.getElementById("tooltip");

// Shows it beside the pointer, on the side that has room.
function placeTooltip(x, y) {
  tooltip.hidden = false;
  const {width, height} = tooltip.getBoundingClientRect();
  const left = x + 14 + width > innerWidth ? x - 14 - width : x + 14;
  const top = y + 16 + height > innerHeight ? y - 12 - height : y + 16;
  tooltip.style.transform = `translate(${Math.max(4, Math.round(left))}px, ${Math.max(4, Math.round(top))}px)`;
}

// ---- Theme, help and keys ---------------------------------------------------------------------------------

function theme() {
  return document.documentElement.dataset.theme;
}

// `keyAction(event)` gives what the page does for a key, if anything; `onTheme` is told of every change of the theme.
function startShell(keyAction, onTheme) {
  const help = document.getElementById("help"), button = document.getElementById("theme");
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const showTheme = (isDark) => {
    document.documentElement.dataset.theme = isDark ? "dark" : "light";
    button.textContent = isDark ? "Light" : "Dark";
    onTheme();
  };
  const search = document.getElementById("search"); // hidden on pages that have nothing to find
  const actions = {d: () => showTheme(theme() !== "dark"), "?": () => help.showModal(), "/": () => search.focus()};
  button.addEventListener("click", actions.d);
  document.getElementById("help-open").addEventListener("click", actions["?"]);
  addEventListener("keydown", (event) => {
    const isTyping = help.open || event.target.closest?.("select, input[type=search]");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/" && search.parentElement.hidden) return;
    const action = keyAction(event) || actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  prefersDark.addEventListener("change", () => showTheme(prefersDark.matches));
  showTheme(prefersDark.matches);
}
