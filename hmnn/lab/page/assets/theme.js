// Light or dark: as the system says, until the reader chooses; before anything is drawn, so that nothing flashes.
"use strict";
window.hmnn = {};
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const listeners = [];
  let chosen = null;
  try { chosen = localStorage.getItem("hmnn-theme"); } catch { /* a page may be refused storage: then it forgets */ }

  function apply() {
    const theme = ["light", "dark"].includes(chosen) ? chosen : system.matches ? "dark" : "light";
    root.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) button.textContent = theme === "dark" ? "Light theme" : "Dark theme";
    listeners.forEach((tell) => tell());
  }

  hmnn.onTheme = (tell) => listeners.push(tell);
  hmnn.colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  system.addEventListener("change", apply);
  apply();
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", () => {
      chosen = root.dataset.theme === "dark" ? "light" : "dark";
      try { localStorage.setItem("hmnn-theme", chosen); } catch { /* as above */ }
      apply();
    });
  });
})();
