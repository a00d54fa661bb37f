/* The socket: panels are morphed in place, figures are handed to charts.js, the indicator tells how old
   the picture is. A pause keeps the socket and counts what it holds back; the newest wins at resume. */
const STALE_S = 3.5;
const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 10000;
const SPOKEN_EVERY_MS = 30000;
/* Close codes after which the socket is not opened again: the indicator, the banner. */
const REFUSALS = {
  4401: ["Signed out", "You are signed out or may no longer see this."],
  4403: ["Role changed", "Your role was changed. This page stays as it was."],
  4409: ["Switched", "You have switched to another organization in another tab. This page stays as it was."],
};

const indicator = document.getElementById("live");
const pauseButton = document.getElementById("pause");
const banner = document.getElementById("stale");
const spoken = document.getElementById("spoken");

let socket = null;
let connected = false;
let refused = null; // of REFUSALS
let retryMs = FIRST_RETRY_MS;
let paused = false;
let held = null;
let heldCount = 0;
let updatedAt = null; // ms on this machine's clock: when the shown figures were made
let spokenAt = 0;
let version = null;

const theme = () => document.documentElement.dataset.theme || "light";

function connect() {
  const url = new URL(indicator.dataset.url, location.href);
  url.protocol = url.protocol.replace("http", "ws");
  url.searchParams.set("theme", theme());
  socket = new WebSocket(url);
  socket.onopen = () => { connected = true; retryMs = FIRST_RETRY_MS; showState(); };
  socket.onmessage = (event) => receive(JSON.parse(event.data));
  socket.onclose = (event) => {
    connected = false;
    refused = REFUSALS[event.code] ?? null;
    showState();
    if (refused) return;
    setTimeout(connect, retryMs * (0.5 + Math.random()));
    retryMs = Math.min(LAST_RETRY_MS, retryMs * 2);
  };
}

function receive(message) {
  noteVersion(message.version);
  if (paused) {
    held = held ? merge(held, message) : message;
    heldCount += 1;
    showState();
    return;
  }
  show(message);
}

/* Messages carry only what changed: held ones are laid over each other. */
function merge(older, newer) {
  return {
    ...newer,
    panels: { ...older.panels, ...newer.panels },
    figures: { ...older.figures, ...newer.figures },
  };
}

async function show(message) {
  updatedAt = message.age_s === null ? null : Date.now() - message.age_s * 1000;
  const swaps = Object.entries(message.panels).map(([name, html]) => {
    const target = document.querySelector(`[data-panel="${name}"]`);
    return target ? htmx.swap({ target, text: html, swap: "innerMorph swapEmpty:true", sourceElement: target }) : null;
  });
  await Promise.all(swaps);
  document.dispatchEvent(new CustomEvent("fairway:panels"));
  if (Object.keys(message.figures).length) {
    document.dispatchEvent(new CustomEvent("fairway:figures", { detail: message.figures }));
  }
  document.body.dispatchEvent(new CustomEvent("fairway:tick"));
  speak();
  showState();
}

/* A saved change says when the gateway that sends the figures has taken it over. */
function noteVersion(latest) {
  if (latest !== version) {
    version = latest;
    document.body.dispatchEvent(new CustomEvent("fairway:version"));
  }
  settleChanges();
}

function settleChanges() {
  for (const note of document.querySelectorAll("[data-awaits-version]")) {
    note.savedAt ??= performance.now();
    if (version === null || version < Number(note.dataset.awaitsVersion)) continue;
    const seconds = (performance.now() - note.savedAt) / 1000;
    note.textContent = `In effect ${seconds < 0.1 ? "at once" : `${seconds.toFixed(1)} s later`}: the gateway runs version ${version}.`;
    delete note.dataset.awaitsVersion;
  }
}

function speak() {
  if (Date.now() - spokenAt < SPOKEN_EVERY_MS) return;
  spokenAt = Date.now();
  spoken.textContent = document.querySelector('[data-panel="sentence"]')?.textContent.trim() ?? "";
}

function age() {
  return updatedAt === null ? null : Math.max(0, (Date.now() - updatedAt) / 1000);
}

function clock(ms) {
  return new Date(ms).toISOString().slice(11, 19);
}

function showState() {
  const seconds = age();
  const stale = seconds !== null && seconds > STALE_S;
  let state = "live";
  let words = seconds === null ? "Connected, no figures yet" : `Live, updated ${Math.round(seconds)} s ago`;
  if (paused) {
    state = "paused";
    words = `Paused, ${heldCount} new`;
  } else if (!connected) {
    state = updatedAt === null ? "connecting" : "disconnected";
    words = refused ? refused[0] : updatedAt === null ? "Connecting" : `Reconnecting, as of ${clock(updatedAt)} UTC`;
  } else if (stale) {
    state = "stale";
    words = `Stale since ${clock(updatedAt)} UTC`;
  }
  indicator.dataset.state = state;
  if (indicator.textContent !== words) indicator.textContent = words;
  showBanner(stale && !paused);
}

function showBanner(stale) {
  const cut = refused !== null || (!connected && updatedAt !== null);
  const shown = cut || stale;
  document.documentElement.classList.toggle("is-stale", shown);
  banner.hidden = !shown;
  const words = refused
    ? refused[1]
    : cut
      ? `Disconnected. These figures are from ${clock(updatedAt)} UTC; trying to reconnect.`
      : stale ? `Stale since ${clock(updatedAt)} UTC: the gateway sends no new figures.` : "";
  if (banner.dataset.words === words) return;
  banner.dataset.words = words;
  banner.textContent = words;
  if (refused) banner.append(" ", reloadLink());
}

function reloadLink() {
  const link = document.createElement("a");
  link.href = location.pathname + location.search;
  link.textContent = "Load the page again";
  return link;
}

function setPaused(wanted) {
  paused = wanted;
  pauseButton.setAttribute("aria-pressed", String(paused));
  pauseButton.firstChild.textContent = paused ? "Resume " : "Pause ";
  if (!paused && held) {
    const message = held;
    held = null;
    heldCount = 0;
    show(message);
  }
  heldCount = 0;
  showState();
}

function isTyping(element) {
  return element.closest("input, textarea, select, [contenteditable], dialog") !== null;
}

pauseButton.hidden = false;
pauseButton.addEventListener("click", () => setPaused(!paused));
document.addEventListener("keydown", (event) => {
  if (event.key !== "p" || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  event.preventDefault();
  setPaused(!paused);
});
document.addEventListener("fairway:theme", () => {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ theme: theme() }));
});
document.addEventListener("htmx:after:swap", settleChanges);
setInterval(showState, 1000);
connect();
