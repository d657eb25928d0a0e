// Small things for all figures: elements, downloads, and the player that films and figures over time share.
"use strict";
(() => {
  const calm = matchMedia("(prefers-reduced-motion: reduce)");

  // Text is always text: nothing on this page is made from a string of HTML.
  hmnn.make = (tag, text = "", attributes = {}) => {
    const made = document.createElement(tag);
    made.textContent = text;
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  };

  hmnn.save = (href, name) => {
    const link = hmnn.make("a", "", { href, download: name });
    document.body.append(link);
    link.click();
    link.remove();
  };

  hmnn.csv = ({ columns, rows }) => {
    const cell = (value) => {
      const text = value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    return [columns, ...rows].map((row) => row.map(cell).join(",") + "\r\n").join("");
  };

  // Buttons under a figure: PNG of what is drawn now, CSV of its numbers.
  hmnn.downloads = (figure, csv, png) => {
    const title = figure.querySelector("h3").textContent;
    const add = (kind, act) => {
      const button = hmnn.make("button", kind, { type: "button", "aria-label": `Download ${title} as ${kind}` });
      button.addEventListener("click", act);
      figure.querySelector(".downloads").append(button);
    };
    add("PNG", async () => hmnn.save(await png(), `${figure.id}.png`));
    if (csv.rows.length) {
      add("CSV", () => {
        const url = URL.createObjectURL(new Blob([hmnn.csv(csv)], { type: "text/csv" }));
        hmnn.save(url, `${figure.id}.csv`);
        setTimeout(() => URL.revokeObjectURL(url), 10000);
      });
    }
  };

  // Play, pause, slider; space and arrows work wherever the focus is inside the controls.
  hmnn.player = (figure, labels, start, show) => {
    const title = figure.querySelector("h3").textContent;
    const controls = figure.querySelector(".controls");
    const group = hmnn.make("div", "", { class: "player", role: "group", "aria-label": `Player: ${title}` });
    const button = hmnn.make("button", "Play", { type: "button", class: "play" });
    const slider = hmnn.make("input", "", { type: "range", min: 0, max: labels.length - 1, step: 1, "aria-label": "Instant" });
    const label = hmnn.make("output");
    const pause = Math.min(900, Math.max(80, 12000 / labels.length));
    let at = start;
    let timer = null;

    function go(i) {
      at = Math.min(labels.length - 1, Math.max(0, i));
      slider.value = at;
      slider.setAttribute("aria-valuetext", labels[at]);
      label.textContent = labels[at];
      return show(at);
    }

    function stop() {
      clearTimeout(timer);
      timer = null;
      button.textContent = "Play";
    }

    async function tick() {
      await go(at + 1);
      if (timer === null) return;
      if (at === labels.length - 1) stop();
      else timer = setTimeout(tick, calm.matches ? Math.max(1000, pause) : pause);
    }

    function toggle() {
      if (timer !== null) return stop();
      if (at === labels.length - 1) go(0);
      button.textContent = "Pause";
      timer = setTimeout(tick, pause);
    }

    button.addEventListener("click", toggle);
    slider.addEventListener("input", () => { stop(); go(Number(slider.value)); });
    group.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
      if (event.key === " " && event.target === slider) toggle();
      else if (step && event.target === button) { stop(); go(at + step); }
      else return;
      event.preventDefault();
    });
    group.append(button, slider, label);
    controls.append(group);
    slider.value = at;
    slider.setAttribute("aria-valuetext", labels[at]);
    label.textContent = labels[at];
  };

  // Plotly is read after the text is there, so that one can begin to read.
  hmnn.plotly = new Promise((ready, fail) => document.addEventListener("DOMContentLoaded", () => {
    if (!document.querySelector("figure.figure, section[data-progress]")) return;
    const script = hmnn.make("script", "", { src: "plotly.min.js" });
    script.addEventListener("load", ready);
    script.addEventListener("error", () => fail(new Error("plotly.min.js is missing beside this page.")));
    document.head.append(script);
  }));
  hmnn.plotly.catch((error) => document.querySelectorAll(".figure .drawing").forEach((box) => { box.textContent = error.message; }));

  // What is inside a figure is read and drawn only when it comes near, so that a long page opens at once.
  hmnn.near = (selector, draw) => {
    const watch = new IntersectionObserver((seen) => seen.filter((s) => s.isIntersecting).forEach((s) => {
      watch.unobserve(s.target);
      draw(s.target, JSON.parse(s.target.querySelector("script[type='application/json']").textContent));
    }), { rootMargin: "500px" });
    document.querySelectorAll(selector).forEach((figure) => watch.observe(figure));
  };
})();
