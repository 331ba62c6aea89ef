"use strict";
// A box that does not scroll needs no place in the tab order; one that scrolls sideways says so until its end is seen.
const boxes = [...document.querySelectorAll(".scroll")];
const fit = (box) => {
  const wide = box.scrollWidth > box.clientWidth + 1;
  box.tabIndex = wide || box.scrollHeight > box.clientHeight + 1 ? 0 : -1;
  box.classList.toggle("more", wide && box.scrollLeft + box.clientWidth < box.scrollWidth - 2);
};
for (const box of boxes) box.addEventListener("scroll", () => fit(box), { passive: true });
addEventListener("resize", () => boxes.forEach(fit));
boxes.forEach(fit);
// Sorts a table by the column whose head is pressed; numbers by data-v, words by text, 0/0 and missing always last.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, place) => head.firstElementChild.addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") === "none" ? !head.classList.contains("n")
      : head.getAttribute("aria-sort") === "descending";
    const numeric = head.classList.contains("n");
    const key = (row) => {
      const cell = row.cells[place];
      if (!numeric) return cell.textContent;
      return cell.dataset.v === undefined ? null : Number(cell.dataset.v);
    };
    const rows = [...table.tBodies[0].rows].map((row) => [key(row), row]);
    rows.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      const order = numeric ? a - b : a.localeCompare(b, "en", { numeric: true });
      return up ? order : -order;
    });
    table.tBodies[0].append(...rows.map(([, row]) => row));
    for (const other of heads) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
  }));
}
// Filters a table by words that a row must hold, and by the values chosen for columns; the count of rows is read out.
for (const filter of document.querySelectorAll(".filter")) {
  const table = document.getElementById(filter.dataset.table);
  const rows = [...table.tBodies[0].rows];
  const box = filter.querySelector("input"), choices = [...filter.querySelectorAll("select")];
  const told = filter.querySelector("output");
  const value = (cell) => cell.firstChild ? cell.firstChild.data.trim() : "";
  const text = new Map();
  const apply = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = choices.filter((c) => c.value).map((c) => [Number(c.dataset.column), c.value]);
    let shown = 0;
    for (const row of rows) {
      if (words.length && !text.has(row)) text.set(row, [...row.cells].map((c) => c.textContent).join(" ").toLowerCase());
      const fits = words.every((word) => text.get(row).includes(word))
        && wanted.every(([place, chosen]) => value(row.cells[place]) === chosen);
      row.hidden = !fits;
      shown += fits;
    }
    told.textContent = shown === rows.length ? `${shown} rows` : `${shown} of ${rows.length} rows`;
    filter.classList.toggle("used", shown < rows.length);
    fit(table.parentElement);
  };
  filter.addEventListener("input", apply);
  filter.querySelector("button").addEventListener("click", () => {
    box.value = "";
    for (const choice of choices) choice.value = "";
    apply();
    box.focus();
  });
  filter.hidden = false;
}
