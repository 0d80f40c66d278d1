/** One tooltip for all elements with `data-tip`, on hover and on focus; Esc hides it. */

const GAP = 8;

export function listenForTooltips() {
  const tooltip = document.getElementById("tooltip");
  const show = (event) => {
    const owner = event.target.closest?.("[data-tip]");
    if (owner) place(tooltip, owner);
    else hide(tooltip);
  };
  document.addEventListener("pointerover", show);
  document.addEventListener("focusin", show);
  document.addEventListener("focusout", () => hide(tooltip));
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide(tooltip));
  addEventListener("hashchange", () => hide(tooltip));
}

function place(tooltip, owner) {
  tooltip.textContent = owner.dataset.tip;
  tooltip.hidden = false;
  // A sentence that is broken over lines has several boxes; the tooltip belongs to the first.
  const box = owner.getClientRects()[0] ?? owner.getBoundingClientRect();
  const left = Math.min(Math.max(GAP, box.left), document.documentElement.clientWidth - tooltip.offsetWidth - GAP);
  const above = box.top - tooltip.offsetHeight - GAP;
  tooltip.style.left = `${left}px`;
  tooltip.style.top = `${above > 0 ? above : owner.getBoundingClientRect().bottom + GAP}px`;
}

function hide(tooltip) {
  tooltip.hidden = true;
}
