"use strict";
// One item at a time. An answer is text: several values of one answer stand in order, separated by spaces.
const data = JSON.parse(document.getElementById("data").textContent);
const place = "dsabench " + data.head.packet;
const byId = (id) => document.getElementById(id);
const names = data.questions.map((question) => question.name);
let answers = {};
let at = 0;
let memory = true;

for (const item of data.items) answers[item.shown.item] = Object.fromEntries(names.map((name) => [name, ""]));

function make(tag, fields, ...inside) {
  const node = Object.assign(document.createElement(tag), fields || {});
  node.append(...inside);
  return node;
}

function keep() {
  try {
    localStorage.setItem(place, JSON.stringify({ by: byId("by").value, answers }));
  } catch {
    memory = false; // private windows may store nothing; the status line says so
  }
  tell();
}

function take(saved) {
  if (["person", "scripted"].includes(saved.by)) byId("by").value = saved.by;
  for (const [item, given] of Object.entries(saved.answers || {})) {
    if (!answers[item]) continue;
    for (const name of names) if (typeof given[name] === "string") answers[item][name] = given[name];
  }
}

function missing(item) {
  return data.questions.filter((question) => {
    if (question.kind === "text") return false;
    const words = answers[item.shown.item][question.name].split(" ").filter((word) => word && word !== "-");
    return words.length < (question.kind === "units" ? item.units.length : 1);
  });
}

function tell(note) {
  const done = data.items.filter((item) => !missing(item).length).length;
  const parts = [`${done} of ${data.items.length} items complete.`];
  if (!byId("by").value) parts.push("Say who gives the answers.");
  if (!memory) parts.push("This browser stores nothing: download before you close the page.");
  if (note) parts.push(note);
  byId("status").textContent = parts.join(" ");
  const open = new Set(data.items.length ? missing(data.items[at]).map((question) => question.name) : []);
  for (const box of document.querySelectorAll("fieldset[data-name]")) box.classList.toggle("open", open.has(box.dataset.name));
  data.items.forEach((item, i) => {
    byId("jump").options[i].textContent = `${i + 1} of ${data.items.length}${missing(item).length ? "" : " ✓"}`;
  });
}

function radios(item, question, unit) {
  const words = answers[item.shown.item][question.name].split(" ");
  const box = make("div", { className: "options" });
  for (const option of question.options) {
    const radio = make("input", { type: "radio", name: `${question.name}-${unit}`, value: option, checked: words[unit] === option });
    radio.addEventListener("change", () => {
      const now = answers[item.shown.item][question.name].split(" ");
      const length = question.kind === "units" ? item.units.length : 1;
      answers[item.shown.item][question.name] = Array.from({ length }, (_, i) => (i === unit ? option : now[i] || "-")).join(" ");
      keep();
    });
    box.append(make("label", {}, radio, " " + option));
  }
  return box;
}

function sources(item, question) {
  const list = make("div", { className: "candidates", tabIndex: 0 });
  list.setAttribute("role", "group");
  list.setAttribute("aria-label", "Candidates");
  const chosen = () => new Set(answers[item.shown.item][question.name].split(" ").filter(Boolean));
  const boxes = [];
  const add = (value, text, inside) => {
    const box = make("input", { type: "checkbox", value, checked: chosen().has(value) });
    box.addEventListener("change", () => {
      for (const other of boxes) if (box.checked && (value === "none") !== (other.value === "none")) other.checked = false;
      answers[item.shown.item][question.name] = boxes.filter((b) => b.checked).map((b) => b.value).sort().join(" ");
      keep();
    });
    boxes.push(box);
    const row = make("div", { className: "candidate" }, make("label", {}, box, " " + text), ...inside);
    list.append(row);
    return row;
  };
  const none = add("none", "none: no set of candidates suffices", []);
  const rows = item.candidates.map((id) => {
    const about = data.evidence[id];
    const details = make("details", {}, make("summary", {}, "Tables and capabilities"));
    for (const table of about.tables) {
      details.append(make("div", {}, table.summary), make("ul", {}, ...table.capabilities.map((text) => make("li", {}, text))));
    }
    const row = add(id, `${id}: ${about.summary}`, [details]);
    return [row, JSON.stringify([id, about]).toLowerCase()];
  });
  const search = make("input", { type: "search", placeholder: "Show only candidates with these words" });
  search.setAttribute("aria-label", "Show only candidates with these words");
  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const [row, text] of rows) row.hidden = !words.every((word) => text.includes(word)) && !row.querySelector("input").checked;
    none.hidden = false;
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") event.preventDefault();
  });
  return [search, list];
}

function draw(focus) {
  const form = byId("item");
  form.replaceChildren();
  if (!data.items.length) return;
  const item = data.items[at];
  const title = make("h2", { id: "title", tabIndex: -1 }, `Item ${at + 1} of ${data.items.length} (${item.shown.item})`);
  form.append(title, make("p", { className: "request" }, item.shown.request));
  if (item.units.length) {
    const facts = make("dl", {});
    for (const name of ["required_behavior", "dependencies", "branches"]) {
      if (item.shown[name]) facts.append(make("dt", {}, name.replace("_", " ")), make("dd", {}, item.shown[name]));
    }
    form.append(facts);
  }
  item.units.forEach((unit, number) => {
    const facts = make("dl", {});
    for (const name of ["unit", "database", "question", "knowledge", "SQL"]) {
      if (unit[name]) facts.append(make("dt", {}, name), make("dd", { className: name === "SQL" ? "code" : "" }, unit[name]));
    }
    const box = make("div", { className: "unit" }, facts);
    for (const question of data.questions.filter((q) => q.kind === "units")) {
      const set = make("fieldset", {}, make("legend", {}, `Unit ${number + 1}: ${question.prompt}`), radios(item, question, number));
      set.dataset.name = question.name;
      box.append(set);
    }
    form.append(box);
  });
  for (const question of data.questions.filter((q) => q.kind !== "units")) {
    const set = make("fieldset", {}, make("legend", {}, question.prompt));
    set.dataset.name = question.name;
    if (question.hint) set.append(make("p", { className: "hint" }, question.hint));
    if (question.kind === "one") set.append(radios(item, question, 0));
    if (question.kind === "sources") set.append(...sources(item, question));
    if (question.kind === "text") {
      const text = make("textarea", { rows: 3, value: answers[item.shown.item][question.name] });
      text.setAttribute("aria-label", question.prompt);
      text.addEventListener("input", () => {
        answers[item.shown.item][question.name] = text.value;
        keep();
      });
      set.append(text);
    }
    form.append(set);
  }
  byId("jump").selectedIndex = at;
  byId("previous").disabled = at === 0;
  byId("next").disabled = at === data.items.length - 1;
  tell();
  if (focus) {
    title.focus();
    window.scrollTo(0, title.offsetTop);
  }
}

function go(to) {
  at = Math.max(0, Math.min(data.items.length - 1, to));
  draw(true);
}

byId("jump").append(...data.items.map(() => make("option", {})));
byId("jump").addEventListener("change", () => go(byId("jump").selectedIndex));
byId("previous").addEventListener("click", () => go(at - 1));
byId("next").addEventListener("click", () => go(at + 1));
byId("open").addEventListener("click", () => {
  const order = data.items.map((_, i) => (at + 1 + i) % data.items.length);
  const found = order.find((i) => missing(data.items[i]).length);
  if (found === undefined) tell("Nothing is left open.");
  else go(found);
});
byId("by").addEventListener("change", keep);
byId("item").addEventListener("submit", (event) => event.preventDefault());
byId("download").addEventListener("click", () => {
  const rows = data.items.map((item) => ({ ...item.shown, ...answers[item.shown.item] }));
  const file = { format: data.format, ...data.head, by: byId("by").value, rows };
  const url = URL.createObjectURL(new Blob([JSON.stringify(file, null, 1) + "\n"], { type: "application/json" }));
  const link = make("a", { href: url, download: `${data.head.reviewer}-pass${data.head.pass}.json` });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
  const open = data.items.filter((item) => missing(item).length).length;
  tell(open ? `Downloaded; ${open} items are not complete.` : "Downloaded.");
});
byId("resume").addEventListener("change", async () => {
  const file = byId("resume").files[0];
  if (!file) return;
  try {
    const saved = JSON.parse(await file.text());
    if (saved.packet !== data.head.packet) throw new Error("it is of another packet");
    take({ by: saved.by, answers: Object.fromEntries(saved.rows.map((row) => [row.item, row])) });
    keep();
    draw(false);
    tell(`Continued from ${file.name}.`);
  } catch (error) {
    tell(`${file.name} cannot be used: ${error.message}.`);
  }
});
try {
  const saved = localStorage.getItem(place);
  if (saved) take(JSON.parse(saved));
} catch {
  memory = false;
}
draw(false);
