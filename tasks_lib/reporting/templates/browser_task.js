"use strict";
// Opens what an address points into, and shows the chosen backends and routers only.
const chains = [...document.querySelectorAll("details.chain")];
function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  target.scrollIntoView();
}
addEventListener("hashchange", reveal);
const form = document.getElementById("choose");
if (form) {
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => {
    const { backend, router } = form.elements;
    let shown = 0;
    for (const chain of chains) {
      chain.hidden = (backend.value !== "" && chain.dataset.backend !== backend.value)
        || (router.value !== "" && chain.dataset.router !== router.value);
      shown += !chain.hidden;
    }
    document.getElementById("shown").textContent = `${shown} of ${chains.length} shown`;
  });
  document.getElementById("open").addEventListener("click", () => chains.forEach((chain) => { chain.open = true; }));
  document.getElementById("close").addEventListener("click", () => chains.forEach((chain) => { chain.open = false; }));
}
for (const box of document.querySelectorAll(".scroll")) {
  const fit = () => { box.tabIndex = box.scrollWidth > box.clientWidth ? 0 : -1; };
  addEventListener("resize", fit);
  box.closest("details")?.addEventListener("toggle", fit);
  fit();
}
reveal();
