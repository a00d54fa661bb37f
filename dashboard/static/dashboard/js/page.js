/* What every page needs: theme switch, dialog, one submission at a time, copy buttons, relative times, menus, Escape. */
const switcher = document.querySelector("[data-theme-switch]");

function showTheme() {
  for (const button of switcher?.querySelectorAll("[data-theme-choice]") ?? []) {
    const pressed = button.dataset.themeChoice === document.documentElement.dataset.themeChoice;
    button.setAttribute("aria-pressed", String(pressed));
  }
}

function ago(seconds) {
  if (seconds < 1.5) return "now";
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} d ago`;
}

function showTimes() {
  const now = Date.now();
  for (const time of document.querySelectorAll("time[data-relative]")) {
    const seconds = (now - Date.parse(time.dateTime)) / 1000;
    const words = seconds < -1.5 ? `in ${ago(-seconds).replace(" ago", "")}` : ago(Math.max(0, seconds));
    if (time.textContent !== words) time.textContent = words;
  }
}

async function copy(button) {
  const text = document.getElementById(button.dataset.copy)?.textContent ?? "";
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text.trim());
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select it and copy";
  }
  setTimeout(() => { button.textContent = label; }, 2000);
}

document.addEventListener("click", (event) => {
  const target = event.target.closest("[data-theme-choice], [data-copy], [data-close]");
  if (target?.dataset.themeChoice) {
    document.dispatchEvent(new CustomEvent("fairway:choose-theme", { detail: target.dataset.themeChoice }));
    showTheme();
  } else if (target?.dataset.copy) {
    copy(target);
  } else if (target && "close" in target.dataset) {
    target.closest("dialog")?.close();
  }
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

/* A form is sent once: while its answer is awaited, and by the second click of a double one (which may meet a
   button that the answer has just put there), nothing is sent. */
const sending = new Set();

document.addEventListener("click", (event) => {
  const button = event.target.closest("button, input[type=submit]");
  if (event.detail < 2 || button?.type !== "submit") return;
  event.preventDefault();
  event.stopImmediatePropagation();
}, true);

document.addEventListener("submit", (event) => {
  if (sending.has(event.target)) {
    event.preventDefault();
    event.stopImmediatePropagation();
    return;
  }
  sending.add(event.target);
  event.target.setAttribute("aria-busy", "true");
}, true);

function sent(form) {
  sending.delete(form);
  form.removeAttribute("aria-busy");
}

document.addEventListener("htmx:finally:request", (event) => {
  const form = event.detail?.ctx?.sourceElement;
  for (const one of sending) if (one === form || !one.isConnected) sent(one);
});
window.addEventListener("pageshow", (event) => {
  if (event.persisted) sending.forEach(sent);
});

/* A link with hx-target="#dialog-content" opens the dialog once its form is there. A saved change is told to the
   lists of changes behind it. */
document.addEventListener("htmx:after:swap", (event) => {
  const dialog = document.getElementById("dialog");
  const content = document.getElementById("dialog-content");
  const swapped = event.detail?.ctx?.target;
  const inDialog = swapped === content || swapped === "#dialog-content" || content?.contains(event.target);
  if (dialog && inDialog && !dialog.open && content.childElementCount) {
    dialog.showModal();
    (content.querySelector("[autofocus]") ?? content.querySelector("input:not([type=hidden])"))?.focus();
  }
  const saved = document.querySelector("[data-awaits-version]:not([data-told])");
  if (saved) {
    saved.dataset.told = "";
    document.body.dispatchEvent(new CustomEvent("fairway:changed"));
  }
  showTimes();
});

document.getElementById("dialog")?.addEventListener("close", () => {
  document.getElementById("dialog-content").replaceChildren();
});

if (switcher) switcher.hidden = false;
showTheme();
showTimes();
setInterval(showTimes, 1000);
document.addEventListener("fairway:panels", showTimes);
