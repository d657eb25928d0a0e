// A run that goes on: its progress file is read from where the last reading ended, one chart per value.
"use strict";
(() => {
  const decoder = new TextDecoder();
  const SHARE = 0.02; // of one core, at most, for drawing: the run may need all of them
  const PAUSE = [1000, 10000]; // milliseconds between two readings, at least and at most

  function follow(section) {
    const values = new Map(); // name of a value -> { parts: part -> (t -> number), plot, legend, stale }
    const [state, latest, charts] = [".state", ".latest", ".charts"].map((name) => section.querySelector(name));
    let offset = 0;
    const say = (words) => { if (state.textContent !== words) state.textContent = words; };

    function chart(name) {
      const id = `${section.id}-${values.size}`;
      const figure = hmnn.make("figure", "", { class: "figure" });
      const plot = hmnn.make("div", "", { class: "drawing", role: "img", "aria-labelledby": `${id}-title` });
      const legend = hmnn.make("div", "", { class: "legend", role: "group", "aria-label": "Shown in the figure" });
      figure.append(hmnn.make("h3", name, { id: `${id}-title` }), plot, legend);
      charts.append(figure);
      const made = { parts: new Map(), plot, legend, stale: true };
      hmnn.onTheme(() => made.plot.data && hmnn.recolour(plot, legend));
      values.set(name, made);
      return made;
    }

    function take(line) {
      const { time, part, t, values: given } = line;
      for (const [name, value] of Object.entries(given || {})) {
        if (typeof value !== "number" || typeof t !== "number") continue;
        const chosen = values.get(name) || chart(name);
        chosen.stale = true;
        const { parts } = chosen;
        const called = String(part).replaceAll("<", "&lt;");
        if (!parts.has(called)) parts.set(called, new Map());
        parts.get(called).set(t, value); // a step that was done again counts once
      }
      latest.textContent = `${part}, t = ${t}${typeof time === "number" ? `, after ${time.toFixed(0)} s` : ""}`;
    }

    const near = (plot) => {
      const { top, bottom } = plot.getBoundingClientRect();
      return bottom > -500 && top < innerHeight + 500;
    };

    async function draw() {
      for (const chosen of [...values.values()].filter((c) => c.stale && near(c.plot))) {
        const { parts, plot, legend } = chosen;
        chosen.stale = false;
        const layout = hmnn.layout({ height: 260, xaxis: { title: { text: "t" } }, uirevision: "same" });
        const before = (plot.data || []).length;
        const shown = new Map((plot.data || []).map((trace) => [trace.name, trace.visible]));
        const data = [...parts].map(([name, points]) => ({
          name, x: [...points.keys()], y: [...points.values()], mode: "lines+markers", marker: { size: 4 }, visible: shown.get(name) ?? true,
        }));
        await Plotly.react(plot, data, layout, hmnn.config);
        if (data.length !== before && data.length <= 12) hmnn.legend(plot, legend);
        else if (data.length > 12) legend.replaceChildren();
      }
    }

    async function read() {
      const answer = await fetch(`${section.dataset.progress}?offset=${offset}`, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      const from = Number(answer.headers.get("Hmnn-Offset"));
      if (from < offset) { values.clear(); charts.replaceChildren(); } // the file was begun anew
      const bytes = await answer.arrayBuffer();
      offset = from + bytes.byteLength;
      for (const line of decoder.decode(bytes).split("\n")) {
        try { if (line) take(JSON.parse(line)); } catch { /* a line of something else is not drawn */ }
      }
      if (answer.headers.get("Hmnn-Record") === "yes") return location.reload();
      say(values.size ? "The run goes on." : "Waiting for the first time step.");
    }

    async function poll() {
      let cost = 0;
      try {
        await read();
        await hmnn.plotly;
        const began = performance.now();
        if (!document.hidden) await draw();
        cost = performance.now() - began;
      } catch { say("No answer: the run or its server has ended. Asking again."); }
      setTimeout(poll, document.hidden ? PAUSE[1] : Math.min(PAUSE[1], Math.max(PAUSE[0], cost / SHARE)));
    }
    poll();
  }

  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll("section[data-progress]").forEach(follow));
})();
