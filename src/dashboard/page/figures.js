"use strict";
// Figures of a snapshot, as /dashboard/data gives them, and how they are written. An element that shows a figure says
// in data-series which series of /metrics it is the sum of, and in data-value the number before it was shortened.

const LABEL_ORDER = (labels) => Object.keys(labels).sort();

class Snapshot {
  constructor(data) {
    this.data = data;
  }

  // The family that a name without its prefix leads to: a frontend's runners go before the process itself.
  family(name) {
    for (const prefix of ["graft_runner_", "graft_"]) {
      const series = this.data.series[prefix + name];
      if (series) return { name: prefix + name, series };
    }
    return null;
  }

  has(name) {
    return this.family(name) !== null;
  }

  // The sum of a family's series that have these labels.
  figure(name, labels = {}) {
    const family = this.family(name);
    const keys = LABEL_ORDER(labels);
    const selector = (family ? family.name : "graft_" + name) +
      (keys.length ? `{${keys.map((key) => `${key}="${labels[key]}"`).join(",")}}` : "");
    let value = 0;
    for (const [its, number] of family ? family.series : []) {
      if (keys.every((key) => its[key] === labels[key])) value += number;
    }
    return { selector, value };
  }

  labelValues(name, label) {
    const family = this.family(name);
    const values = new Set((family ? family.series : []).map(([labels]) => labels[label] || ""));
    return [...values].sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
  }
}

const whole = (number) => Math.round(number).toLocaleString("en-US");

// So many digits, without an exponent where rounding adds one: 99.6 by two digits is 100.
function digits(number, count) {
  const text = number.toPrecision(count);
  return text.includes("e") ? String(Number(text)) : text;
}

function short(number) {
  if (number === null || number === undefined || Number.isNaN(number)) return "–";
  const size = Math.abs(number);
  if (size >= 1e9) return digits(number / 1e9, 3) + " G";
  if (size >= 1e6) return digits(number / 1e6, 3) + " M";
  if (size >= 1e5) return digits(number / 1e3, 3) + " k";
  if (size >= 100 || Number.isInteger(number)) return whole(number);
  return digits(number, size >= 10 ? 3 : 2);
}

function seconds(number) {
  if (number === null || number === undefined || Number.isNaN(number)) return "–";
  return number < 1 ? digits(number * 1e3, number < 0.1 ? 2 : 3) + " ms" : digits(number, 3) + " s";
}

function bytes(number) {
  if (!number) return "–";
  return number >= 1 << 20 ? short(number / (1 << 20)) + " MiB" : short(number / 1024) + " KiB";
}

function duration(ms) {
  const minutes = Math.floor(ms / 60000);
  if (minutes < 1) return "under a minute";
  if (minutes < 120) return minutes + " min";
  return minutes < 2880 ? Math.floor(minutes / 60) + " h" : Math.floor(minutes / 1440) + " days";
}

function make(tag, className = "", text = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}

// Writes only what has changed: most of a page stays as it is from one second to the next.
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function setFigure(element, figure, format = short) {
  element.dataset.series = figure.selector;
  element.dataset.value = figure.value;
  setText(element, format(figure.value));
}

// For a histogram since the start; `quantile` is "count" or "p50".
function setQuantile(element, key, quantiles, quantile, format) {
  element.dataset.latency = `${key} ${quantile}`;
  element.dataset.value = quantiles[quantile];
  setText(element, format(quantiles[quantile]));
}

// A bar of parts: [{value, color}].
function setBar(bar, parts) {
  const total = parts.reduce((sum, part) => sum + part.value, 0) || 1;
  while (bar.children.length < parts.length) bar.append(make("span"));
  parts.forEach((part, idx) => {
    const piece = bar.children[idx];
    if (piece.className !== part.color) piece.className = part.color;
    const width = ((100 * part.value) / total).toFixed(2) + "%";
    if (piece.style.width !== width) piece.style.width = width;
  });
}

// A table that keeps its rows from one refresh to the next. `columns`: {title, kind, write(cell, row)}; "rest": what a
// narrow page leaves out.
class Table {
  constructor(parent, columns) {
    this.columns = columns;
    const scroll = make("div", "scroll");
    const table = make("table");
    const head = make("tr");
    for (const column of columns) head.append(make("th", column.kind || "", column.title));
    this.body = make("tbody");
    const thead = make("thead");
    thead.append(head);
    table.append(thead, this.body);
    scroll.append(table);
    parent.append(scroll);
  }

  show(rows) {
    while (this.body.rows.length > rows.length) this.body.lastChild.remove();
    while (this.body.rows.length < rows.length) {
      const line = make("tr");
      for (const column of this.columns) line.append(make("td", column.kind || ""));
      this.body.append(line);
    }
    rows.forEach((row, idx) => {
      this.columns.forEach((column, at) => column.write(this.body.rows[idx].cells[at], row));
    });
  }
}
