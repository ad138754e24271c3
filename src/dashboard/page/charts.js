"use strict";
// The history's charts: what the server kept of the last hour, and what has come since, drawn by dygraphs.

const POINTS_DRAWN = 450;
// Its legend measures text by a style attribute, which the page's policy forbids; ours stands above each chart.
Dygraph.PLUGINS = Dygraph.PLUGINS.filter((plugin) => plugin !== Dygraph.Plugins.Legend);
const COLORS = ["--one", "--two", "--three", "--four"];

// `columns`: names of the history's columns and what they are called. `needs`: a column that must have figures.
const CHARTS = [
  { title: "Tokens a second", columns: { output_tokens: "generated", prompt_tokens: "prompts" }, format: short },
  { title: "Requests", columns: { running: "running", waiting: "waiting", unplaced: "without a runner" }, format: short },
  { title: "First token, at the 50th and 99th percentile", columns: { first_token_p50: "p50", first_token_p99: "p99" }, format: seconds },
  { title: "Between tokens, at the 50th and 99th percentile", columns: { next_token_p50: "p50", next_token_p99: "p99" }, format: seconds },
  { title: "Pages", columns: { pages_referenced: "KV in use", pages_cached: "prefixes", pages_adapters: "adapters", pages_free: "free" }, format: short, stacked: true },
  { title: "Rows of a batch", columns: { rows_decode: "decoding", rows_prompt: "prompts" }, format: short, stacked: true },
  { title: "Adapters of a batch and on devices", columns: { batch_adapters: "in the batch", adapters_resident: "on devices" }, format: short },
  { title: "Adapters copied and evicted a second", columns: { copies: "copied", evictions: "evicted" }, format: short },
  { title: "Placements a second", columns: { placed_resident: "adapter there", placed_cold: "adapter to be loaded", placed_base: "base model" }, format: short, stacked: true },
  { title: "Fine-tuning jobs", columns: { jobs_running: "running", jobs_queued: "queued" }, format: short },
  { title: "Migrations and preemptions a second", columns: { moved: "moved", preemptions: "preempted" }, format: short },
];

class History {
  constructor() {
    this.next = 0;
    this.times = [];
    this.columns = {};
  }

  // Takes the points that the server gave; whether there is any new one.
  add(history, seconds_kept = 3600) {
    const is_new_server = history.next < this.next || history.first > this.next;
    if (is_new_server) {
      this.times = [];
      this.columns = {};
    }
    this.next = history.next;
    this.times.push(...history.times);
    const drop = this.times.findIndex((time) => time >= this.times[this.times.length - 1] - seconds_kept);
    this.times.splice(0, drop);
    for (const [name, figures] of Object.entries(history.columns)) {
      const column = (this.columns[name] ||= []);
      column.push(...figures);
      column.splice(0, drop);
    }
    return history.times.length > 0;
  }

  has(name) {
    return (this.columns[name] || []).some((figure) => figure !== null);
  }

  last(name) {
    const column = this.columns[name] || [];
    return column.length ? column[column.length - 1] : null;
  }

  // Rows [date, figures...] of the last minutes, no more than can be told apart: means of neighbours.
  rows(names, minutes) {
    const from = this.times.findIndex((time) => time >= this.times[this.times.length - 1] - 60 * minutes);
    const step = Math.max(1, Math.ceil((this.times.length - from) / POINTS_DRAWN));
    const rows = [];
    // Groups end with the newest point, so that points do not move from group to group as time passes.
    for (let end = this.times.length; end > from; end -= step) {
      const begin = Math.max(from, end - step);
      const row = [new Date(1000 * this.times[end - 1])];
      for (const name of names) row.push(mean(this.columns[name], begin, end));
      rows.push(row);
    }
    return rows.reverse();
  }
}

function axisLabel(number, format) {
  if (number === 0) return "0";
  if (format === seconds) return number < 1 ? Number((number * 1e3).toPrecision(3)) + " ms" : number + " s";
  return number >= 1e3 ? Number((number / 1e3).toPrecision(3)) + "k" : String(Number(number.toPrecision(3)));
}

function mean(column, begin, end) {
  let sum = 0;
  let count = 0;
  for (let idx = begin; idx < end; ++idx) {
    if (column[idx] === null) continue;
    sum += column[idx];
    ++count;
  }
  return count ? sum / count : null;
}

class Chart {
  constructor(parent, spec) {
    this.spec = spec;
    this.card = make("div", "card");
    this.card.append(make("h2", "", spec.title));
    this.legend = make("div", "legend");
    this.place = make("div", "chart");
    this.card.append(this.legend, this.place);
    parent.append(this.card);
  }

  draw(history, minutes) {
    const names = Object.keys(this.spec.columns).filter((name) => history.has(name));
    this.card.hidden = names.length === 0;
    if (names.length === 0) return;
    const rows = history.rows(names, minutes);
    if (this.graph && this.names.join() === names.join()) {
      this.graph.updateOptions({ file: rows });
    } else {
      this.begin(names, rows);
    }
    this.latest = rows[rows.length - 1].slice(1);
    this.tell(this.latest);
  }

  begin(names, rows) {
    if (this.graph) this.graph.destroy();
    this.names = names;
    this.legend.replaceChildren();
    this.values = names.map((name, idx) => {
      const line = make("span");
      const value = make("b");
      line.append(make("span", `key c${idx + 1}`), this.spec.columns[name], value);
      this.legend.append(line);
      return value;
    });
    this.graph = new Dygraph(this.place, rows, this.options());
  }

  options() {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    return {
      labels: ["time", ...this.names],
      colors: COLORS.slice(0, this.names.length).map(color),
      axisLineColor: color("--line"),
      gridLineColor: color("--line"),
      stackedGraph: Boolean(this.spec.stacked),
      fillGraph: Boolean(this.spec.stacked),
      fillAlpha: 0.55,
      strokeWidth: 1.6,
      includeZero: true,
      legend: "never",
      showLabelsOnHighlight: false,
      highlightCircleSize: 3,
      axes: { x: { drawGrid: false, pixelsPerLabel: 70 },
              y: { pixelsPerLabel: 34, axisLabelWidth: 54, axisLabelFormatter: (number) => axisLabel(number, this.spec.format) } },
      highlightCallback: (event, x, points, row) => this.tell(this.names.map((name, idx) => this.graph.getValue(row, idx + 1))),
      unhighlightCallback: () => this.tell(this.latest),
      interactionModel: {},
    };
  }

  // The figures beside the names: those under the pointer, else the latest.
  tell(figures) {
    this.values.forEach((value, idx) => setText(value, this.spec.format(figures[idx])));
  }

  recolor() {
    if (this.graph) this.graph.updateOptions(this.options());
  }
}
