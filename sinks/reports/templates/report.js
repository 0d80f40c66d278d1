"use strict";
(() => {
  const list = document.getElementById("list");
  const entries = [...list.children];
  const find = document.getElementById("find");
  const show = document.getElementById("show");
  const order = document.getElementById("order");
  const shown = document.getElementById("shown");
  const texts = new Map();

  const textOf = (entry) => {
    if (!texts.has(entry)) texts.set(entry, entry.textContent.toLowerCase());
    return texts.get(entry);
  };

  const isOf = (entry, choice) => {
    const [kind, value] = choice.split(":");
    if (kind === "status") return entry.dataset.status === value;
    if (kind === "issue") return entry.dataset.issues.split(" ").includes(value);
    return true;
  };

  const filter = () => {
    const words = find.value.toLowerCase().trim();
    let count = 0;
    for (const entry of entries) {
      entry.hidden = !(isOf(entry, show.value) && (words === "" || textOf(entry).includes(words)));
      if (!entry.hidden) count += 1;
    }
    shown.textContent = count === entries.length ? "" : `${count} of ${entries.length} shown`;
  };

  // A row without a composite comes after all that have one.
  const badness = (entry) => (entry.dataset.score === "" ? 2 : Number(entry.dataset.score));

  const sort = () => {
    const byRow = (one, other) => Number(one.dataset.row) - Number(other.dataset.row);
    const worst = (one, other) => badness(one) - badness(other) || byRow(one, other);
    list.append(...[...entries].sort(order.value === "worst" ? worst : byRow));
  };

  const open = () => {
    const entry = /^#row-\d+$/.test(location.hash) && document.getElementById(location.hash.slice(1));
    if (!entry) return;
    entry.hidden = false;
    entry.open = true;
    entry.scrollIntoView();
  };

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const each of closed) each.open = true;
  });
  addEventListener("afterprint", () => {
    for (const each of closed) each.open = false;
  });
  addEventListener("hashchange", open);
  let waiting;
  find.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(filter, 150);
  });
  show.addEventListener("change", filter);
  order.addEventListener("change", sort);
  document.getElementById("tools").hidden = false;
  // Browsers keep what was chosen when a page is loaded again.
  filter();
  if (order.value === "worst") sort();
  open();
})();
