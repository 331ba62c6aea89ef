"use strict";
// A box that does not scroll needs no place in the tab order.
const boxes = [...document.querySelectorAll(".scroll[role=region]")];
const fit = () => boxes.forEach((box) => {
  box.tabIndex = box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight ? 0 : -1;
});
addEventListener("resize", fit);
fit();
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
