// Follow the run: ask for its state each second, and show the report when it is there.
"use strict";
(() => {
  const EVERY_MS = 1000, SLOW_MS = 5000;
  const at = id => document.getElementById(id);
  const number = n => Math.round(n).toLocaleString("en");
  const took = s => s < 60 ? `${Math.round(s)} s` : s < 3600 ? `${Math.floor(s / 60)} min ${Math.round(s % 60)} s` : `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
  const SIGNS = { waiting: "…", running: "▸", ended: "■", "broke off": "!" };
  const STATES = { begin: "▸ going on", end: "✓ done", failed: "! failed" };
  const PHASES = { injecting: "…", injected: "✕", proven: "◆", healed: "✓", failed: "!" };

  // foreign text only ever becomes text, never markup
  const cell = (tag, label, text) => {
    const e = document.createElement(tag);
    if (tag === "th") e.scope = "row";
    e.dataset.label = label;
    e.textContent = text;
    return e;
  };
  const fill = (id, rows) => {
    const body = at(id), lines = rows.map(cells => {
      const line = document.createElement("tr");
      line.append(...cells);
      return line;
    });
    if (lines.length) body.replaceChildren(...lines);
  };
  const path = (values, top) => values.map((v, i) => `${i ? "L" : "M"}${(240 - values.length + i + 0.5).toFixed(1)} ${(97 - 94 * Math.min(v, top) / top).toFixed(1)}`).join("");

  const show = live => {
    at("state").firstElementChild.textContent = `${SIGNS[live.state] || ""} ${live.state}`;
    at("text").textContent = live.sentence || live.text;
    at("quiet").textContent = took(live.quiet_s);
    const last = live.points.at(-1);
    if (last) {
      at("acked").textContent = number(last.acked);
      at("acked_per_s").textContent = number(last.acked_per_s);
      at("delivered_per_s").textContent = number(last.delivered_per_s);
      const behind = Object.entries(last.behind).sort((a, b) => b[1] - a[1])[0];
      if (behind) {
        const reader = document.createElement("small");
        reader.textContent = behind[0];
        at("behind").replaceChildren(`${number(behind[1])} `, reader);
      }
      // a short burst would flatten the rest: the scale ends at twice the 90th percentile, and the text says what is above
      const values = live.points.flatMap(p => [p.acked_per_s, p.delivered_per_s]).sort((a, b) => a - b);
      const most = values.at(-1), usual = 2 * values[Math.floor(0.9 * (values.length - 1))];
      const top = Math.max(1, usual > 0 ? Math.min(most, usual) : most);
      at("rates").querySelector(".acked").setAttribute("d", path(live.points.map(p => p.acked_per_s), top));
      at("rates").querySelector(".delivered").setAttribute("d", path(live.points.map(p => p.delivered_per_s), top));
      at("top").textContent = `${number(top)}/s` + (most > top ? `; cut off there: up to ${number(most)}/s` : "");
    }
    fill("stages", live.stages.map(s => {
      const time = cell("td", "Time", took(s.seconds));
      time.className = "num";
      return [cell("th", "Stage", s.text), cell("td", "State", STATES[s.state] + (s.detail ? `: ${s.detail}` : "")), time];
    }));
    fill("faults", live.faults.map(f => [cell("th", "Fault", f.name), cell("td", "Phase", `${PHASES[f.phase] || ""} ${f.phase}`), cell("td", "Outcome", f.words)]));
    const notes = [...live.problems.map(text => `problem: ${text}`), ...live.notes].map(text => {
      const e = document.createElement("li");
      e.textContent = text;
      return e;
    });
    if (notes.length) at("problems").replaceChildren(...notes);
  };

  const follow = async () => {
    let wait = EVERY_MS;
    try {
      const answer = await fetch("live.json", { cache: "no-store" });
      if (answer.status === 404) {
        at("state").firstElementChild.textContent = "! removed";
        at("text").textContent = "The directory of the run was removed. This page shows what it last knew.";
        return;
      }
      if (!answer.ok) throw new Error(answer.status);
      const live = await answer.json();
      show(live);
      if (live.has_report) {
        location.reload();
        return;
      }
      if (live.state !== "running") wait = SLOW_MS;
    } catch {
      at("quiet").textContent = "(the server does not answer) some time";
      wait = SLOW_MS;
    }
    setTimeout(follow, wait);
  };
  follow();
})();
