// Filters of the index: what is chosen stands in the address behind #, so that a view can be kept and sent on.
const form = document.getElementById("filters");
const rows = [...document.querySelectorAll("#table-tasks tbody tr")].map((row) => ({
  row,
  cells: row.cells,
  text: (row.id + " " + row.cells[1].textContent).toLowerCase(),
  ends: (row.dataset.ends ? row.dataset.ends.split(" ") : []).map((end) => end.split(".").map(Number)),
}));
const stageNames = new Map([...form.elements["failure-stage"].options].slice(1).map((o) => [Number(o.value), o.textContent]));
const SOLVED = 0;
const columns = { corpus: 2, behavior: 3, difficulty: 4 };
function show() {
  const chosen = Object.fromEntries([...new FormData(form)].filter(([, value]) => value.trim() !== ""));
  const wanted = (chosen.text ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const { row, cells, text, ends } of rows) {
    const mine = ends.filter(([backend, router]) => (chosen.backend === undefined || backend === Number(chosen.backend))
      && (chosen.router === undefined || router === Number(chosen.router)));
    const fits = Object.entries(columns).every(([name, place]) => chosen[name] === undefined || cells[place].textContent === chosen[name])
      && wanted.every((word) => text.includes(word))
      && (chosen["failure-stage"] === undefined || mine.some((end) => end[2] === Number(chosen["failure-stage"])));
    row.hidden = !fits;
    shown += fits;
    const all = mine.reduce((sum, end) => sum + end[3], 0);
    const solved = mine.reduce((sum, end) => sum + (end[2] === SOLVED ? end[3] : 0), 0);
    cells[7].textContent = all ? (100 * solved / all).toFixed(1) : "–";
    if (all) cells[7].dataset.v = solved / all; else delete cells[7].dataset.v;
    const failed = new Map();
    for (const [, , stage, n] of mine) if (stage !== SOLVED) failed.set(stage, (failed.get(stage) ?? 0) + n);
    const most = [...failed].sort((a, b) => b[1] - a[1] || a[0] - b[0])[0];
    cells[8].textContent = most ? stageNames.get(most[0]) : "–";
  }
  document.getElementById("count").textContent = shown === rows.length ? `${shown} tasks` : `${shown} of ${rows.length} tasks`;
  return chosen;
}
function keep() {
  const address = new URLSearchParams(show()).toString();
  history.replaceState(null, "", address ? `#${address}` : location.pathname);
}
function restore() {
  if (!location.hash.includes("=")) return;
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
    const field = form.elements.namedItem(name);
    if (field) field.value = value;
  }
  show();
}
form.addEventListener("input", keep);
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", () => setTimeout(keep));
addEventListener("hashchange", restore);
form.hidden = false;
restore();
