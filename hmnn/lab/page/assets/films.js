// Films: strips of pictures side by side, one instant at a time.
"use strict";
(() => {
  const picture = (source) => (/^data:image\/(png|jpeg|gif|webp);base64,/.test(source) ? source : "data:,");

  function draw(figure, { strips, labels, csv }) {
    const box = figure.querySelector(".drawing");
    const images = strips.map(({ label }) => {
      const strip = hmnn.make("div", "", { class: "strip" });
      const image = hmnn.make("img", "", { alt: "" });
      strip.append(image, hmnn.make("span", label));
      box.append(strip);
      return image;
    });
    const show = (i) => images.forEach((image, k) => { image.src = picture(strips[k].pictures[i]); });
    show(0);
    if (labels.length > 1) hmnn.player(figure, labels, 0, show);
    hmnn.downloads(figure, csv, () => png(images, strips));
    figure.dataset.drawn = "yes";
  }

  async function png(images, strips) {
    await Promise.all(images.map((image) => image.decode()));
    const [wide, high, gap] = [Math.max(160, ...images.map((i) => i.naturalWidth)), Math.max(...images.map((i) => i.naturalHeight)), 16];
    const canvas = hmnn.make("canvas");
    [canvas.width, canvas.height] = [images.length * (wide + gap) + gap, high + 3 * gap];
    const pen = canvas.getContext("2d");
    pen.fillStyle = hmnn.colour("ground");
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.fillStyle = hmnn.colour("ink");
    pen.font = "13px sans-serif";
    images.forEach((image, k) => {
      pen.drawImage(image, gap + k * (wide + gap), gap);
      pen.fillText(strips[k].label, gap + k * (wide + gap), high + 2 * gap, wide);
    });
    return canvas.toDataURL("image/png");
  }

  document.addEventListener("DOMContentLoaded", () => hmnn.near("figure.film", draw));
})();
