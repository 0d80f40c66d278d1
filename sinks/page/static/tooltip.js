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
  // A sentence over several lines has a box for each line; below the last one, the tooltip does not hide the text.
  const box = [...owner.getClientRects()].at(-1) ?? owner.getBoundingClientRect();
  const page = document.documentElement;
  const below = box.bottom + GAP;
  const fits = below + tooltip.offsetHeight < page.clientHeight;
  tooltip.style.left = `${Math.min(Math.max(GAP, box.left), page.clientWidth - tooltip.offsetWidth - GAP)}px`;
  tooltip.style.top = `${fits ? below : owner.getBoundingClientRect().top - tooltip.offsetHeight - GAP}px`;
}

function hide(tooltip) {
  tooltip.hidden = true;
}
