"use strict";
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const [stage, canvas, search, found, detail] = ["stage", "canvas", "search", "found", "detail"].map(byId);
  const rows = [...document.querySelectorAll(".card li")];
  const variables = [...document.querySelectorAll(".var")];
  const cards = [...document.querySelectorAll(".card")];
  const extent = { width: +canvas.dataset.width, height: +canvas.dataset.height };
  const view = { x: 0, y: 0, scale: 1 };

  // Zoom and pan

  const place = () => {
    canvas.style.transform = `translate(${view.x}px, ${view.y}px) scale(${view.scale})`;
    canvas.classList.toggle("far", view.scale < 0.4);
    root.dataset.scale = view.scale.toFixed(3);
  };
  const zoom = (factor, x = stage.clientWidth / 2, y = stage.clientHeight / 2) => {
    const scale = Math.min(4, Math.max(0.01, view.scale * factor));
    view.x = x - ((x - view.x) * scale) / view.scale;
    view.y = y - ((y - view.y) * scale) / view.scale;
    view.scale = scale;
    place();
  };
  const fitting = () =>
    Math.min((stage.clientWidth - 48) / (extent.width || 1), (stage.clientHeight - 48) / (extent.height || 1));
  const show = (scale) => {
    view.scale = scale;
    view.x = Math.max(24, (stage.clientWidth - extent.width * scale) / 2);
    view.y = Math.max(24, (stage.clientHeight - extent.height * scale) / 2);
    place();
  };
  const centre = (element) => {
    view.scale = Math.max(view.scale, 0.8);
    place();
    const [box, frame] = [element.getBoundingClientRect(), stage.getBoundingClientRect()];
    const width = Math.min(box.width, frame.width - 60);
    view.x += frame.left + frame.width / 2 - (box.left + width / 2);
    view.y += frame.top + frame.height / 2 - (box.top + Math.min(box.height, frame.height - 60) / 2);
    place();
  };
  const visible = (element) => {
    const [box, frame] = [element.getBoundingClientRect(), stage.getBoundingClientRect()];
    return view.scale >= 0.4 && box.left >= frame.left && box.top >= frame.top && box.bottom <= frame.bottom;
  };
  stage.addEventListener("wheel", (event) => {
    event.preventDefault();
    const frame = stage.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.clientX - frame.left, event.clientY - frame.top);
  }, { passive: false });
  let held = null;
  let moved = false;
  addEventListener("pointerdown", (event) => {
    moved = false;
    if (event.button || !stage.contains(event.target)) return;
    held = { x: event.clientX - view.x, y: event.clientY - view.y, from: [event.clientX, event.clientY] };
  });
  addEventListener("pointermove", (event) => {
    if (!held) return;
    moved ||= Math.hypot(event.clientX - held.from[0], event.clientY - held.from[1]) > 4;
    if (!moved) return;
    stage.classList.add("panning");
    view.x = event.clientX - held.x;
    view.y = event.clientY - held.y;
    place();
  });
  for (const end of ["pointerup", "pointercancel"]) {
    addEventListener(end, () => {
      held = null;
      stage.classList.remove("panning");
    });
  }

  // Search

  const searched = [...cards.map((card) => card.querySelector("h2")), ...rows, ...document.querySelectorAll(".item")];
  let texts = null;
  let hits = [];
  let current = -1;
  const look = (text) => {
    texts ||= searched.map((element) => element.textContent.toLowerCase());
    const wanted = text.trim().toLowerCase();
    for (const element of hits) element.classList.remove("hit", "now");
    hits = wanted ? searched.filter((_, i) => texts[i].includes(wanted)) : [];
    for (const element of hits) element.classList.add("hit");
    current = -1;
    tell();
  };
  const tell = () => {
    found.textContent = search.value.trim() ? `${current < 0 ? "" : `${current + 1} of `}${hits.length}` : "";
    root.dataset.hits = hits.length;
  };
  const step = (by) => {
    if (!hits.length) return;
    hits[current]?.classList.remove("now");
    current = (current + by + hits.length + (current < 0 && by < 0 ? 1 : 0)) % hits.length;
    const element = hits[current];
    element.classList.add("now");
    if (stage.contains(element)) centre(element);
    else element.scrollIntoView({ block: "nearest" });
    tell();
  };
  search.addEventListener("input", () => look(search.value));
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") search.blur();
  });

  // Variables, blocks and statements

  const numbers = (text) => (text ? text.split(" ").map(Number) : []);
  const choose = (chosen) => {
    for (const element of document.querySelectorAll(".chosen, .reads, .writes")) {
      element.classList.remove("chosen", "reads", "writes");
      element.removeAttribute("aria-selected");
    }
    if (!chosen) return;
    chosen.classList.add("chosen");
    chosen.setAttribute("aria-selected", "true");
    const variable = +chosen.dataset.var;
    let first = null;
    for (const row of rows) {
      const writes = numbers(row.dataset.writes).includes(variable);
      if (writes || numbers(row.dataset.reads).includes(variable)) {
        row.classList.add(writes ? "writes" : "reads");
        first ||= row;
      }
    }
    if (first && !visible(first)) centre(first);
  };
  let explained = null;
  const explain = (row) => {
    const names = (list) => numbers(list).map((n) => variables.find((v) => +v.dataset.var === n).textContent.trim());
    const lines = [row.querySelector("b").textContent + row.querySelector("span").textContent];
    const uses = [["reads", row.dataset.reads], ["writes", row.dataset.writes]];
    for (const [what, list] of uses) for (const name of names(list)) lines.push(`${what} ${name}`);
    lines.push(row.dataset.detail);
    if (row.dataset.blocks) lines.push("double-click, or Enter again: go to the block");
    detail.textContent = lines.join("\n");
    detail.hidden = false;
    explained = row;
  };
  const visit = (block) => centre(byId(`b${block}`));
  const act = (target, again) => {
    if (target.matches(".var")) choose(target.classList.contains("chosen") ? null : target);
    else if (target.matches(".block")) visit(target.dataset.block);
    else if (again && target.dataset.blocks) visit(numbers(target.dataset.blocks)[0]);
    else explain(target);
  };
  document.addEventListener("click", (event) => {
    if (moved) return;
    const target = event.target.closest(".var, .block, .row");
    if (!target) {
      if (stage.contains(event.target)) detail.hidden = true;
      return;
    }
    act(target, event.detail > 1);
  });

  // Items by keyboard: a tab stop for each list, arrow keys from item to item, Enter and Space as a click

  const lists = [...document.querySelectorAll("#side ul, .card")].map((list) => [...list.querySelectorAll("[role=option]")]);
  const placeOf = new Map();
  for (const items of lists) {
    items.forEach((item, at) => {
      item.tabIndex = at ? -1 : 0;
      placeOf.set(item, { items, at });
    });
  }
  const stops = new Map(lists.map((items) => [items, items[0]]));
  const focusOn = (item) => {
    item.focus({ preventScroll: true });
    if (!stage.contains(item)) item.scrollIntoView({ block: "nearest" });
    else if (!visible(item)) centre(item);
  };
  document.addEventListener("focusin", (event) => {
    const found = placeOf.get(event.target);
    if (!found) return;
    stops.get(found.items).tabIndex = -1;
    event.target.tabIndex = 0;
    stops.set(found.items, event.target);
    if (stage.contains(event.target) && event.target.matches(":focus-visible") && !visible(event.target)) centre(event.target);
  });
  stage.addEventListener("scroll", () => stage.scrollTo(0, 0));
  addEventListener("keydown", (event) => {
    const found = placeOf.get(event.target);
    if (!found || event.ctrlKey || event.metaKey || event.altKey) return;
    const { items, at } = found;
    const next = items[{ ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key]];
    if (next) focusOn(next);
    else if (event.key === "Enter" || event.key === " ") {
      const item = event.target;
      const goes = item.matches(".row") && item === explained && !detail.hidden && item.dataset.blocks;
      act(item, goes);
      const block = item.dataset.block ?? (goes ? numbers(item.dataset.blocks)[0] : null);
      const first = block === null ? null : byId(`b${block}`).querySelector(".row");
      if (first) focusOn(first);
    } else if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
  });

  // Buttons and keys

  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "")) === "dark";
  const actions = {
    previous: () => step(-1),
    next: () => step(1),
    out: () => zoom(1 / 1.3),
    in: () => zoom(1.3),
    fit: () => show(Math.min(1, fitting())),
    theme: () => { root.dataset.theme = dark() ? "light" : "dark"; },
  };
  for (const [id, action] of Object.entries(actions)) byId(id).addEventListener("click", action);
  const keys = { "/": () => search.focus(), "+": actions.in, "=": actions.in, "-": actions.out, 0: actions.fit, n: actions.next, N: actions.previous };
  addEventListener("keydown", (event) => {
    if (event.target === search || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      detail.hidden = true;
      choose(null);
    }
    const action = keys[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });

  // The address may ask for a look: #search=text, #block=number, #variable=name, #theme=dark, #fit

  show(Math.min(1, Math.max(0.6, fitting())));
  const asked = new URLSearchParams(location.hash.slice(1));
  if (["dark", "light"].includes(asked.get("theme"))) root.dataset.theme = asked.get("theme");
  if (asked.has("fit")) actions.fit();
  if (asked.has("search")) {
    search.value = asked.get("search");
    look(search.value);
    step(1);
  }
  if (cards[asked.get("block")]) visit(asked.get("block"));
  const wanted = asked.get("variable");
  if (wanted) choose(variables.find((element) => element.querySelector("b").textContent === wanted));
  root.dataset.ready = Math.round(performance.now());
})();
