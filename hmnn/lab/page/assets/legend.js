// The legend as buttons: it wraps on a phone, and is reached by keyboard, which plotly's own is not.
"use strict";
(() => {
  const drawable = new Set(["scatter", "scattergl", "bar", "histogram", "box", "violin", undefined]);

  function groups(plot) {
    const found = new Map();
    plot.data.forEach((trace, i) => {
      if (!drawable.has(trace.type) || trace.visible === false) return;
      const key = trace.legendgroup ? `group ${trace.legendgroup}` : `trace ${i}`;
      if (!found.has(key)) found.set(key, { traces: [], head: null });
      const group = found.get(key);
      group.traces.push(i);
      if (group.head === null && trace.showlegend !== false && trace.name) group.head = i;
    });
    return [...found.values()].filter((group) => group.head !== null);
  }

  function paint(plot, group, button) {
    const { line, marker, fillcolor, mode } = plot._fullData[group.head];
    const colour = [mode === "markers" ? marker?.color : line?.color, marker?.color, fillcolor].find((c) => typeof c === "string");
    const swatch = button.firstChild;
    swatch.style.color = colour || "currentColor";
    swatch.className = `swatch ${mode === "markers" || !line ? "dot" : { dash: "dashed", dot: "dotted" }[line.dash] || "line"}`;
    button.setAttribute("aria-pressed", String(plot.data[group.head].visible !== "legendonly"));
  }

  // Draw the legend of a plot into a box; called again when the traces or the colours change.
  hmnn.legend = (plot, box) => {
    const found = groups(plot);
    box.replaceChildren();
    if (found.length < 2) return;
    for (const group of found) {
      const button = hmnn.make("button", "", { type: "button" });
      button.append(hmnn.make("span", "", { "aria-hidden": "true" }), hmnn.text(plot.data[group.head].name));
      button.addEventListener("click", async () => {
        const hidden = plot.data[group.head].visible === "legendonly";
        await Plotly.restyle(plot, { visible: hidden ? true : "legendonly" }, group.traces);
        paint(plot, group, button);
      });
      paint(plot, group, button);
      box.append(button);
    }
  };

  // Plotly's names hold line breaks and entities; a button shows the words.
  hmnn.text = (name) => String(name).replace(/<br\/?>/gi, " ")
    .replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&");
})();
