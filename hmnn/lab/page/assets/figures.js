// Figures: plotly draws them in the colours of the page; what plotly offers only to the mouse becomes a control.
"use strict";
(() => {
  const config = { displayModeBar: false, responsive: true, showTips: false };
  const narrow = () => innerWidth < 600;
  const drawn = [];
  const [WIDE, COLUMN] = [860, 280]; // pixels: what a figure has on a wide screen, and what a column of panels needs

  hmnn.template = () => {
    const [ink, muted, rule, ground] = ["ink", "muted", "rule", "ground"].map(hmnn.colour);
    const axis = { gridcolor: rule, linecolor: muted, zerolinecolor: rule, tickcolor: muted, tickfont: { color: muted, size: narrow() ? 11 : 12 }, title: { font: { size: narrow() ? 12 : 13 } }, automargin: true };
    const scene = { ...axis, backgroundcolor: ground, showbackground: false };
    const words = { font: { color: ink } };
    return {
      layout: {
        paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
        font: { family: hmnn.colour("sans"), size: 13, color: ink },
        colorway: hmnn.colour("colourway").split(" "),
        xaxis: { ...axis, showline: true, ticks: "outside" }, yaxis: axis,
        scene: { xaxis: scene, yaxis: scene, zaxis: scene },
        hoverlabel: { bgcolor: ground, bordercolor: muted, ...words },
        annotationdefaults: words, coloraxis: { colorbar: { outlinewidth: 0, tickfont: { color: muted } } },
        legend: { orientation: "h" },
      },
      data: Object.fromEntries(["heatmap", "contour", "surface"].map((type) => [type, [{ colorbar: { outlinewidth: 0, thickness: 12, tickfont: { color: muted } } }]])),
    };
  };

  // The page has the title, the legend and the slider; columns of panels keep a width that can be read.
  hmnn.layout = (given, data = []) => {
    const { title, sliders, updatemenus, width, ...rest } = given;
    const deep = data.some((trace) => ["surface", "scatter3d", "mesh3d"].includes(trace.type));
    if (deep && narrow()) {
      for (const key of new Set(["scene", ...Object.keys(rest).filter((name) => /^scene\d+$/.test(name))])) rest[key] = further(rest[key]);
    }
    const touch = matchMedia("(pointer: coarse)").matches; // there, dragging must scroll the page
    if (narrow()) slim(rest);
    return {
      height: narrow() ? 340 : 420, margin: deep ? { l: 0, r: 0, t: 0, b: 0 } : { l: 60, r: 20, t: 16, b: 50 }, ...(touch ? { dragmode: false } : {}),
      ...rest, showlegend: false, autosize: true, template: hmnn.template(),
    };
  };

  // On a phone a long label takes two lines, and squares no more height than they have width.
  function slim(layout) {
    for (const axis of Object.entries(layout).filter(([key]) => /^xaxis\d*$/.test(key)).map(([, value]) => value)) {
      const text = axis.title?.text || "";
      const middle = text.indexOf(" ", text.length / 2 - 5);
      if (text.length > 30 && middle > 0) axis.title.text = `${text.slice(0, middle)}<br>${text.slice(middle + 1)}`;
    }
    const many = columns(layout);
    const most = many === 1 ? innerWidth : (many * COLUMN * layout.height) / WIDE;
    if (layout.yaxis?.scaleanchor) layout.height = Math.min(layout.height || 420, most);
  }

  // On a phone the corners of a scene must fit into less width.
  function further(scene = {}) {
    const { x = 1.25, y = 1.25, z = 1.25 } = scene.camera?.eye || {};
    return { ...scene, camera: { ...scene.camera, eye: { x: 1.3 * x, y: 1.3 * y, z: 1.3 * z } } };
  }

  function columns(layout) {
    const starts = Object.entries(layout).filter(([key]) => /^(xaxis|scene)\d*$/.test(key))
      .map(([, axis]) => (axis.domain?.x ?? axis.domain ?? [0])[0]);
    return new Set(starts.map((s) => (Array.isArray(s) ? s[0] : s).toFixed(2))).size;
  }

  function frames(figure, plot, { layout = {}, frames: given }) {
    const slider = (layout.sliders || [])[0] || {};
    const names = given.map((frame, i) => frame.name ?? String(i));
    const called = new Map((slider.steps || []).map((step) => [(step.args?.[0] || [])[0], step.label]));
    const prefix = slider.currentvalue?.prefix || "";
    const labels = names.map((name) => hmnn.text(prefix + (called.get(name) ?? name)));
    const still = { mode: "immediate", frame: { duration: 0, redraw: true }, transition: { duration: 0 } };
    return hmnn.player(figure, labels, slider.active || 0, (i) => Plotly.animate(plot, [names[i]], still));
  }

  function menus(figure, plot, given, legend) {
    for (const menu of given || []) {
      const buttons = (menu.buttons || []).filter((b) => ["restyle", "relayout", "update"].includes(b.method));
      if (!buttons.length) continue;
      const select = hmnn.make("select");
      buttons.forEach((b, i) => select.append(hmnn.make("option", hmnn.text(b.label ?? i), { value: i })));
      select.value = menu.active || 0;
      select.addEventListener("change", async () => {
        const { method, args } = buttons[Number(select.value)];
        await Plotly[method](plot, ...structuredClone(args));
        hmnn.legend(plot, legend);
      });
      const label = hmnn.make("label", `${menu.name || "Show"} `);
      label.append(select);
      figure.querySelector(".controls").append(label);
    }
  }

  async function png(figure, plot, given) {
    const many = plot.data.filter((trace) => trace.name && trace.showlegend !== false).length > 1;
    const layout = {
      ...plot.layout, paper_bgcolor: hmnn.colour("ground"), showlegend: given.showlegend ?? many,
      title: { text: figure.querySelector("h3").textContent.replaceAll("<", "&lt;"), font: { size: 16 } },
      margin: { ...plot.layout.margin, t: Math.max(60, plot.layout.margin?.t || 0) },
    };
    return Plotly.toImage({ data: plot.data, layout }, { format: "png", width: Math.max(700, plot.clientWidth), height: plot.clientHeight + 60, scale: 2 });
  }

  async function draw(figure, { plot: given, csv }) {
    await hmnn.plotly;
    const plot = figure.querySelector(".drawing");
    const layout = given.layout || {};
    const wide = columns(layout);
    if (wide > 1) plot.style.minWidth = `${wide * COLUMN}px`;
    await Plotly.newPlot(plot, structuredClone(given.data), hmnn.layout(structuredClone(layout), given.data), config);
    plot.style.minHeight = "";
    if (given.frames?.length) {
      await Plotly.addFrames(plot, given.frames.map((frame, i) => ({ ...frame, name: frame.name ?? String(i) })));
      frames(figure, plot, given);
    }
    const legend = hmnn.make("div", "", { class: "legend", role: "group", "aria-label": "Shown in the figure" });
    menus(figure, plot, layout.updatemenus, legend);
    if (layout.showlegend !== false) {
      figure.querySelector(".controls").append(legend);
      hmnn.legend(plot, legend);
    }
    hmnn.downloads(figure, csv, () => png(figure, plot, layout));
    drawn.push(() => hmnn.recolour(plot, legend));
    figure.dataset.drawn = "yes";
  }

  hmnn.recolour = async (plot, legend) => {
    await Plotly.relayout(plot, { template: hmnn.template() });
    if (legend.isConnected) hmnn.legend(plot, legend);
  };

  hmnn.config = config;
  hmnn.onTheme(() => drawn.forEach((again) => again()));
  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("figure.figure").forEach((figure) => {
      const box = figure.querySelector(".drawing");
      box.style.minHeight = `${Number(figure.dataset.height) || (narrow() ? 340 : 420)}px`;
    });
    hmnn.near("figure.figure", draw);
  });
})();
