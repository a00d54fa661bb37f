/* Draws the figures that the server builds. Plotly is loaded when a chart first comes into sight; each
   chart is drawn at most once a second, in a frame, and only while it is visible. */
const plotlyUrl = document.querySelector("script[data-plotly]").dataset.plotly;
const MIN_GAP_MS = 1000;
const NARROW_PX = 480;
const NARROW_TICKS = 3;
const CONFIG = { displayModeBar: false, responsive: true };

/* plotly.js brings the style sheet of a map library unless an element with this id exists; no map is drawn
   here and the content security policy would refuse it. */
const MAP_STYLE_ID = "9f215cf04c5486422605d13261cb87401f4e7763b6296af81e98efbc0130da53";

let plotly = null;

function load() {
  plotly ??= new Promise((resolve, reject) => {
    const placeholder = document.createElement("meta");
    placeholder.id = MAP_STYLE_ID;
    document.head.append(placeholder);
    const script = document.createElement("script");
    script.src = plotlyUrl;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => { plotly = null; reject(new Error("plotly.js could not be loaded")); };
    document.head.append(script);
  });
  return plotly;
}

class Chart {
  constructor(element) {
    this.element = element;
    this.figure = null;
    this.visible = false;
    this.drawnAt = 0;
    this.scheduled = false;
  }

  offer(figure) {
    this.figure = figure;
    this.schedule();
  }

  see(visible) {
    this.visible = visible;
    this.schedule();
  }

  schedule() {
    if (!this.figure || !this.visible || this.scheduled) return;
    this.scheduled = true;
    const wait = Math.max(0, this.drawnAt + MIN_GAP_MS - performance.now());
    setTimeout(() => requestAnimationFrame(() => this.draw()), wait);
  }

  async draw() {
    try {
      const Plotly = await load();
      const figure = this.figure;
      this.figure = null;
      this.scheduled = false;
      this.drawnAt = performance.now();
      if (!figure.data.length) {
        if (this.element.classList.contains("js-plotly-plot")) Plotly.purge(this.element);
        this.say("Nothing to draw yet", "Lines appear ten seconds after the first call.");
        return;
      }
      if (!this.element.classList.contains("js-plotly-plot")) this.element.replaceChildren();
      await Plotly.react(this.element, figure.data, this.fitted(figure.layout), CONFIG);
    } catch (error) {
      this.scheduled = false;
      this.say("The chart could not be drawn", `${error.message}. The table below has the same figures.`);
    }
  }

  /* On a phone fewer times fit side by side. */
  fitted(layout) {
    if (this.element.clientWidth >= NARROW_PX) return layout;
    return { ...layout, xaxis: { ...layout.xaxis, nticks: NARROW_TICKS } };
  }

  say(title, text) {
    const box = document.createElement("div");
    box.className = "empty";
    const strong = document.createElement("b");
    strong.textContent = title;
    const paragraph = document.createElement("p");
    paragraph.textContent = text;
    box.append(strong, paragraph);
    this.element.replaceChildren(box);
  }
}

const charts = new Map();
for (const element of document.querySelectorAll("[data-figure]")) {
  charts.set(element.dataset.figure, new Chart(element));
}
const sight = new IntersectionObserver((entries) => {
  for (const entry of entries) charts.get(entry.target.dataset.figure).see(entry.isIntersecting);
});
for (const chart of charts.values()) sight.observe(chart.element);
document.addEventListener("fairway:figures", (event) => {
  for (const [name, figure] of Object.entries(event.detail)) charts.get(name)?.offer(figure);
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) for (const chart of charts.values()) chart.schedule();
});
