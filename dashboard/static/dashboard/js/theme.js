/* Runs before the first paint, so that a page never flashes in the wrong theme. The choice is light,
   dark or system and stays in this browser; data-theme on <html> is always light or dark. */
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const read = () => {
    try { return localStorage.getItem("fairway-theme") || "system"; } catch { return "system"; }
  };
  const apply = (choice) => {
    const theme = choice === "system" ? (system.matches ? "dark" : "light") : choice;
    root.dataset.themeChoice = choice;
    if (root.dataset.theme === theme) return;
    root.dataset.theme = theme;
    document.dispatchEvent(new CustomEvent("fairway:theme", { detail: theme }));
  };
  const choose = (choice) => {
    try { localStorage.setItem("fairway-theme", choice); } catch { /* this page only */ }
    apply(choice);
  };
  apply(read());
  system.addEventListener("change", () => apply(root.dataset.themeChoice));
  document.addEventListener("fairway:choose-theme", (event) => choose(event.detail));
})();
