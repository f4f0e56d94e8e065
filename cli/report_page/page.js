// Fills the page: the head, warnings, a card a task, a row a table.

function drawHead() {
  const name = data.store.replace(/^.*\//, "");
  const from = data.drafted ? "by a drafted schema" : "by a schema";
  showHeading(name, `${name} · ingest report`, `from ${data.source}, ${from}, in ${data.seconds.total.toFixed(1)} s`);
  const times = report.first ? [stat("Times", `${day(report.first)} – ${day(report.last)}`, "of all rows")] : [];
  document.getElementById("stats").append(
    stat("Rows", whole(data.rows), `of ${count(data.tables, "table")}`),
    stat("Edges", whole(data.edges), data.dangling ? `${count(data.dangling, "key")} without a match` : "every key has a match"),
    stat("Seeds", whole(data.seeds), `of ${count(report.tasks.length, "task")}`),
    ...times,
    stat("Store", bytes(data.store_bytes), data.source_bytes ? `from ${bytes(data.source_bytes)}` : ""));
  document.getElementById("hashes").append(hash("store hash", data.store_hash), element("span", "", data.manifest),
                                           element("span", "", `weir ${data.version}`));
}

// What lets a model see what it should not.
const LEAKS = new Set(["leak_suspect", "seeds_without_time", "table_without_time"]);

function drawWarnings() {
  const section = document.getElementById("warnings");
  const list = section.querySelector("ul");
  section.classList.toggle("none", data.warnings.length === 0);
  section.querySelector("h2").textContent =
    data.warnings.length ? count(data.warnings.length, "warning") : "No warnings";
  for (const warning of data.warnings) {
    const item = element("li", LEAKS.has(warning.code) ? "leak" : "");
    item.append(element("span", "code", warning.code), element("span", "message", warning.message));
    list.append(item);
  }
  document.getElementById("notes").hidden = data.notes.length === 0;
  for (const note of data.notes) document.querySelector("#notes ul").append(element("li", "", note.message));
}

// ---- Tasks ------------------------------------------------------------------------------------------------

function splitBars(task) {
  const box = element("div", "splits");
  const most = Math.max(1, ...SPLITS.map((split) => task.splits[split].seeds));
  for (const split of SPLITS) {
    const labels = task.splits[split];
    const name = element("span", "split", split);
    const swatch = element("i", "swatch");
    swatch.style.background = SHADES[split];
    name.prepend(swatch);
    const track = element("span", "track"), bar = element("i");
    bar.style.width = `${100 * labels.seeds / most}%`;
    bar.style.background = SHADES[split];
    track.append(bar);
    const text = labels.seeds ? `${whole(labels.seeds)} · ${labelText(task, split)}` : "empty";
    box.append(name, track, element("span", labels.seeds ? "figure" : "figure is-empty", text));
  }
  return box;
}

function classBars(task) {
  const box = element("div", "classes");
  const totals = task.classes.map((one) => one.seeds.reduce((a, b) => a + b));
  task.classes.forEach((one, number) => {
    const row = element("div"), track = element("span", "track"), bar = element("i");
    bar.style.width = `${100 * totals[number] / totals[0]}%`;
    track.append(bar);
    const name = element("bdi", "class", one.name || "(empty)");
    name.title = one.name;
    row.append(name, track, element("span", "", percent(totals[number] / Math.max(1, task.seeds))));
    box.append(row);
  });
  return box;
}

function facts(task) {
  const found = [];
  const add = (...fact) => found.push(fact);
  const sequence = task.sequence;
  if (sequence.looked_at) {
    add("typical sequence", `${count(sequence.cells, "cell")} of ${count(sequence.rows, "row")}`, sequence.rows < 2);
    add("hidden by time", `${percent(sequence.hidden)} of their children`);
  }
  if (task.first) add("observed", day(task.first) === day(task.last) ? day(task.first) : `${day(task.first)} to ${day(task.last)}`);
  if (task.see_everything) add("see everything", count(task.see_everything, "seed"));
  if (task.conflicts) add("contradict each other", count(task.conflicts, "seed"), true);
  if (task.before_data) add("before all data", count(task.before_data, "seed"), true);
  if (task.dropped) add("dropped", `${count(task.dropped, "row")} without an anchor`);
  for (const suspect of task.suspects) add("tells alone", `${suspect.column} (AUC ${suspect.auc.toFixed(3)})`, true);
  return factList(found);
}

function taskCard(task) {
  const card = element("article", "card");
  card.classList.toggle("is-odd", warningsOf("task", task.name).length > 0);
  const title = element("h3");
  title.append(element("bdi", "", task.name));
  card.append(title, element("p", "kicker", `${task.stype} ${task.target} of ${task.anchor_table}, ${task.kind} task`));
  if (task.seeds === 0) {
    card.append(element("p", "bad", "no seeds"));
    return card;
  }
  card.append(splitBars(task));
  if (task.stype === "categorical" && task.classes) card.append(classBars(task));
  if (task.over_time) {
    card.append(timeChart(task));
    const legend = element("div", "legend");
    legend.append(element("span", "", `${day(task.first)} → ${day(task.last)}`));
    if (task.stype !== "timestamp") {
      const mean = element("span", "", task.kind === "link" ? "pairs" : task.stype === "boolean" ? "share of true" : task.stype === "categorical" ? `share of ${shortened(task.classes[0].name)}` : "mean label");
      const swatch = element("i", "swatch");
      swatch.style.background = "var(--mean)";
      mean.prepend(swatch);
      legend.append(mean);
    }
    card.append(legend);
  }
  card.append(facts(task));
  return card;
}

// ---- Tables -----------------------------------------------------------------------------------------------

function tableRow(table) {
  const row = element("tr");
  const name = element("td", "table-name");
  name.append(element("bdi", "", table.name));
  for (const column of table.columns.filter((one) => one.shown_from)) {
    const own = column.shown_from === column.name;
    name.append(element("small", "", `${column.name} is shown from ${own ? "its own time" : column.shown_from} on`));
  }
  if (!table.reached && report.tasks.length) name.append(element("small", "bad", "no task reaches it"));
  const when = element("td", "when");
  if (table.timed) {
    const dates = element("div", "dates");
    dates.append(element("span", "", day(table.first)), element("span", "", table.time || ""), element("span", "", day(table.last)));
    when.append(spanChart(table), dates);
    if (table.timed < table.rows) when.append(element("div", "bad", `${count(table.rows - table.timed, "row")} without a time`));
  } else {
    when.append(element("span", "always", "no time: every seed sees all rows"));
  }
  const links = element("td", "links");
  for (const key of table.foreign_keys) {
    const link = element("span", key.dangling ? "bad" : "", `${key.name} → ${key.to}`);
    link.dataset.tip = key.dangling ? `${count(key.edges, "edge")}, ${count(key.dangling, "orphan")}` : count(key.edges, "edge");
    links.append(link);
  }
  const unlinked = element("td", table.unlinked ? "number bad" : "number", table.foreign_keys.length ? percent(table.unlinked / Math.max(1, table.rows)) : "");
  row.append(name, element("td", "number", whole(table.rows)), when, unlinked, links);
  return row;
}

// ---- The page ---------------------------------------------------------------------------------------------

function showTip(event) {
  const tip = event.target.dataset ? event.target.dataset.tip : undefined;
  tooltip.hidden = !tip;
  if (!tip) return;
  tooltip.textContent = tip;
  placeTooltip(event.clientX, event.clientY);
}

startShell(() => null, () => {});
drawHead();
drawWarnings();
document.querySelector("#tasks .cards").append(...report.tasks.map(taskCard));
document.getElementById("tasks").hidden = report.tasks.length === 0;
document.querySelector("#tables tbody").append(...report.tables.map(tableRow));
document.addEventListener("pointermove", showTip);
