// The picture: one time axis for all lanes. Lanes are placed by CSS from --t0 and --span, so zoom sets two variables.
(() => {
  const root = document.getElementById("timeline");
  if (!root) return;
  const data = JSON.parse(document.getElementById("timeline-data").textContent);
  const byId = (id) => document.getElementById(id);
  const [axis, grid, clock, crosshair, selection, live] = ["axis", "grid", "clock", "crosshair", "selection", "live"].map(byId);
  const readouts = [...root.querySelectorAll(".lane[data-lane]")].map((lane) => ({
    element: lane.querySelector(".readout"), lane: data.lanes[lane.dataset.lane],
  }));
  const SHORTEST = Math.min(data.total, Math.max(0.5, data.total / 2000));
  let begin = 0, span = data.total, cursor = null;

  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const place = () => byId("axis").getBoundingClientRect();
  const timeAt = (x) => { const r = place(); return begin + clamp((x - r.left) / r.width, 0, 1) * span; };

  function relative(seconds, digits) {
    const sign = seconds < 0 ? "\u2212" : "+", whole = Math.abs(seconds);
    const minutes = Math.floor(whole / 60), hours = Math.floor(minutes / 60);
    const rest = (whole - minutes * 60).toFixed(digits) + " s";
    return sign + (hours ? hours + " h " : "") + (minutes ? (minutes % 60) + " min " : "") + rest;
  }

  function tickStep() {
    const room = span / Math.max(2, place().width / 95);
    return [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400].find((s) => s >= room) || 28800;
  }

  function tickText(seconds, step) {
    if (step < 1) return seconds.toFixed(1) + " s";
    const rounded = Math.round(seconds), whole = Math.abs(rounded), sign = rounded < 0 ? "\u2212" : "";
    if (whole < 120 && data.total < 600) return sign + whole + " s";
    if (whole < 3600) return sign + Math.floor(whole / 60) + ":" + String(whole % 60).padStart(2, "0") + " min";
    return sign + Math.floor(whole / 3600) + ":" + String(Math.floor(whole / 60) % 60).padStart(2, "0") + " h";
  }

  function ticks() {
    const step = tickStep(), first = Math.ceil((begin + data.zero) / step) * step;
    const marks = [], lines = [];
    for (let t = first; t <= begin + span + data.zero + 1e-9; t += step) {
      const at = t - data.zero, line = document.createElement("span"), mark = document.createElement("span");
      line.className = mark.className = "mark-at";
      line.style.setProperty("--a", at);
      mark.style.setProperty("--a", at);
      mark.textContent = tickText(t, step);
      lines.push(line);
      const share = (at - begin) / span;
      if (share > 0.02 && share < 0.975) marks.push(mark);
    }
    axis.replaceChildren(...marks);
    grid.replaceChildren(...lines);
  }

  function view(from, length) {
    span = clamp(length, SHORTEST, data.total);
    begin = clamp(from, 0, data.total - span);
    root.style.setProperty("--t0", begin);
    root.style.setProperty("--span", span);
    ticks();
    point(cursor);
  }
  const zoom = (factor, around) => view(around - (around - begin) * factor, span * factor);

  function valueAt(lane, t) {
    if (lane.spans) {
      let low = 0, high = lane.spans.length - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (lane.spans[middle][0] <= t) low = middle; else high = middle - 1;
      }
      const found = lane.spans[low];
      return found && found[0] <= t && t < found[1] ? lane.texts[found[2]] : "";
    }
    const slot = Math.floor((t + lane.lead) / lane.step);
    if (lane.texts) return lane.texts[slot] || "";
    const value = lane.values[slot];
    return value === undefined || value === null ? "" : value.toLocaleString("en") + lane.unit;
  }

  function point(t) {
    cursor = t;
    const on = t !== null && t >= begin && t <= begin + span;
    root.classList.toggle("at", on);
    crosshair.hidden = !on;
    clock.textContent = on ? relative(t + data.zero, 3) : "";
    if (on) {
      crosshair.style.left = ((t - begin) / span) * 100 + "%";
      const wall = document.createElement("small");
      wall.textContent = new Date(data.beginMs + t * 1000).toISOString().replace("T", " ").replace("Z", " UTC");
      clock.append(wall);
    }
    for (const { element, lane } of readouts) element.textContent = on ? valueAt(lane, t) : element.dataset.note;
  }

  let drag = null, waiting = false, lastX = 0;
  root.addEventListener("pointerdown", (e) => {
    const r = place();
    if (e.button !== 0 || e.clientX < r.left || e.clientX > r.right || e.target.closest("a, summary")) return;
    drag = { x: e.clientX, from: timeAt(e.clientX), begin, moves: e.shiftKey, on: false };
  });
  addEventListener("pointermove", (e) => {
    if (drag && (drag.on || Math.abs(e.clientX - drag.x) > 4)) {
      drag.on = true;
      if (drag.moves) view(drag.begin - ((e.clientX - drag.x) / place().width) * span, span);
      else {
        const to = timeAt(e.clientX), left = Math.min(drag.from, to);
        selection.hidden = false;
        selection.style.left = ((left - begin) / span) * 100 + "%";
        selection.style.width = (Math.abs(to - drag.from) / span) * 100 + "%";
      }
    }
    if (!root.contains(e.target) && !drag) return;
    lastX = e.clientX;
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      const r = place();
      point(lastX >= r.left && lastX <= r.right ? timeAt(lastX) : null);
    });
  });
  addEventListener("pointerup", (e) => {
    if (drag && drag.on && !drag.moves) {
      const to = timeAt(e.clientX);
      view(Math.min(drag.from, to), Math.abs(to - drag.from));
    }
    drag = null;
    selection.hidden = true;
  });
  root.addEventListener("pointerleave", () => { if (!drag) requestAnimationFrame(() => point(null)); });
  root.addEventListener("dblclick", (e) => { if (e.target.closest(".plot")) view(0, data.total); });
  root.addEventListener("wheel", (e) => {
    const sideways = e.deltaX || (e.shiftKey ? e.deltaY : 0);
    if (e.ctrlKey || e.metaKey) zoom(Math.exp(e.deltaY / 300), timeAt(e.clientX));
    else if (sideways && span < data.total) view(begin + (sideways / place().width) * span, span);
    else return;
    e.preventDefault();
  }, { passive: false });

  const middle = () => (cursor !== null && cursor >= begin && cursor <= begin + span ? cursor : begin + span / 2);
  const actions = {
    in: () => zoom(0.5, middle()), out: () => zoom(2, middle()), reset: () => view(0, data.total),
    back: () => view(begin - span / 3, span), forth: () => view(begin + span / 3, span),
  };
  for (const button of document.querySelectorAll("[data-do]")) button.addEventListener("click", actions[button.dataset.do]);
  for (const button of document.querySelectorAll("[data-from]")) {
    button.addEventListener("click", () => view(+button.dataset.from, button.dataset.to - button.dataset.from));
  }
  const keys = { "+": actions.in, "=": actions.in, "-": actions.out, "0": actions.reset, Escape: actions.reset };
  root.addEventListener("keydown", (e) => {
    if (e.target !== root || e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === "ArrowLeft" || e.key === "ArrowRight") {
      const step = (e.shiftKey ? span / 10 : span / 200) * (e.key === "ArrowLeft" ? -1 : 1);
      const to = clamp(middle() + step, 0, data.total);
      if (to < begin || to > begin + span) view(to - span / 2, span);
      point(to);
      live.textContent = relative(to + data.zero, 2) + readouts.filter((r) => r.element.closest(".fault") && r.element.textContent)
        .map((r) => ", " + r.element.textContent).join("");
    } else if (keys[e.key]) keys[e.key]();
    else return;
    e.preventDefault();
  });
  addEventListener("resize", ticks);
  addEventListener("beforeprint", ticks);
  ticks();
})();
