"use strict";
// The dashboard: asks the server once a second for its snapshot and the history's new points, and shows them.

const REFRESH_MS = 1000;
const MOVE_REASONS = { died: "runner died", drained: "runner drained", refused: "runner had no room", evicted: "no pages left", spare: "runner is spare" };
const PAGE_PARTS = [["referenced", "c1", "KV in use"], ["cached", "c2", "kept for prefixes"], ["adapters", "c3", "adapters"], ["free", "c4", "free"]];
const PLACES = { resident: "adapter on the device", cold: "adapter to be loaded", base: "base model" };
const JOB_CHIPS = { running: "good", validating_files: "good", queued: "", succeeded: "good", failed: "bad", cancelled: "warn" };
const STATE_CHIPS = { resident: "good", loading: "warn", host: "", folder: "", unread: "" };

const byId = (id) => document.getElementById(id);
const bodyOf = (id) => byId(id).querySelector(".body");

class Tiles {
  constructor(parent) {
    this.parent = parent;
    this.tiles = new Map();
  }

  // The two elements of a tile: its large figure, and the line below.
  get(title) {
    if (!this.tiles.has(title)) {
      const tile = make("div", "card tile");
      const big = make("div", "big");
      const small = make("div", "small");
      tile.append(make("h2", "", title), big, small);
      this.parent.append(tile);
      this.tiles.set(title, [big, small]);
    }
    return this.tiles.get(title);
  }

  // `parts`: figures with words between them.
  setSmall(small, parts) {
    while (small.children.length > parts.length) small.lastChild.remove();
    while (small.children.length < parts.length) small.append(make("span"));
    parts.forEach((part, idx) => {
      const span = small.children[idx];
      if (typeof part !== "string") return setFigure(span, part);
      delete span.dataset.series;
      setText(span, part);
    });
  }
}

class Page {
  constructor() {
    this.history = new History();
    this.minutes = 15;
    this.key = sessionStorage.getItem("graft-key") || "";
    this.rates = new Map();  // by runner: its tokens at the last snapshots
    this.tiles = new Tiles(byId("tiles"));
    this.charts = CHARTS.map((spec) => new Chart(byId("charts"), spec));
    this.num_refreshes = 0;
    this.makeRanges();
    this.makeLogin();
    this.makeTables();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.charts.forEach((chart) => chart.recolor()));
  }

  makeRanges() {
    for (const button of byId("ranges").children) {
      button.addEventListener("click", () => {
        for (const other of byId("ranges").children) other.setAttribute("aria-pressed", String(other === button));
        this.minutes = Number(button.dataset.minutes);
        this.drawCharts();
      });
    }
  }

  makeLogin() {
    byId("login").addEventListener("submit", (event) => {
      event.preventDefault();
      this.key = byId("key").value.trim();
      sessionStorage.setItem("graft-key", this.key);
      byId("key").value = "";
      this.refresh();
    });
  }

  makeTables() {
    const figure = (title, name, labels = {}, rest = false) => ({
      title,
      kind: rest ? "number rest" : "number",
      write: (cell, row) => {
        if (this.now.has(name)) setFigure(cell, this.now.figure(name, { ...row.labels, ...labels }));
        else setText(cell, "–");
      },
    });
    this.runners = new Table(bodyOf("runners"), [
      { title: "runner", kind: "name", write: (cell, row) => { setText(cell, row.name); cell.title = row.name; } },
      { title: "state", write: (cell, row) => this.writeState(cell, row) },
      figure("running", "requests_running"),
      figure("waiting", "requests_waiting"),
      figure("from here", "requests_in_flight", {}, true),
      { title: "pages", kind: "share rest", write: (cell, row) => this.writePages(cell, row) },
      figure("sequences", "step_sequences", {}, true),
      figure("adapters in batch", "step_adapters", {}, true),
      figure("on device", "adapters_resident", {}, true),
      { title: "tokens/s", kind: "number", write: (cell, row) => setText(cell, short(this.rates.get(row.runner)?.rate ?? null)) },
      figure("tokens", "output_tokens_total", {}, true),
      figure("preemptions", "preemptions_total", {}, true),
    ]);
    this.adapters = new Table(bodyOf("adapters"), [
      { title: "adapter", kind: "name", write: (cell, row) => { setText(cell, row.name); cell.title = row.name; } },
      { title: "", kind: "share rest", write: (cell, row) => this.writeShare(cell, row) },
      { title: "requests", kind: "number", write: (cell, row) => setFigure(cell, this.ofAdapter("requests", row)) },
      { title: "tokens", kind: "number rest", write: (cell, row) => setFigure(cell, this.ofAdapter("output_tokens", row)) },
      { title: "rank", kind: "number rest", write: (cell, row) => setText(cell, row.rank ? String(row.rank) : "–") },
      { title: "size", kind: "number rest", write: (cell, row) => setText(cell, bytes(row.bytes)) },
      { title: "where", write: (cell, row) => this.writePlace(cell, row) },
    ]);
    this.jobs = new Table(bodyOf("jobs"), [
      { title: "model", kind: "name", write: (cell, row) => { setText(cell, row.name); cell.title = `${row.id}, learner ${row.learner || "by default"}`; } },
      { title: "tenant", kind: "name rest", write: (cell, row) => setText(cell, row.tenant || "–") },
      { title: "state", write: (cell, row) => this.writeJobState(cell, row) },
      { title: "", kind: "share rest", write: (cell, row) => this.writeJobShare(cell, row) },
      { title: "steps", kind: "number", write: (cell, row) => setText(cell, row.step === null ? "–" : row.total_steps === null ? whole(row.step) : `${whole(row.step)} of ${whole(row.total_steps)}`) },
      { title: "loss", kind: "number rest", write: (cell, row) => setText(cell, row.loss === null ? "–" : digits(row.loss, 3)) },
      { title: "when", kind: "number rest", write: (cell, row) => setText(cell, this.timeOf(row)) },
    ]);
    this.latencies = new Table(bodyOf("latencies"), [
      { title: "", write: (cell, row) => setText(cell, row.title) },
      ...["p50", "p90", "p99"].map((quantile) => ({
        title: quantile, kind: "number",
        write: (cell, row) => {
          if (row.recent) setText(cell, seconds(row.quantiles[quantile]));
          else setQuantile(cell, row.key, row.quantiles, quantile, seconds);
        },
      })),
      { title: "seen", kind: "number", write: (cell, row) => {
        if (row.recent) setText(cell, short(row.quantiles.count));
        else setQuantile(cell, row.key, row.quantiles, "count", short);
      } },
    ]);
    this.placements = new Table(bodyOf("placement"), [
      { title: "", write: (cell, row) => setText(cell, row.title) },
      { title: "requests", kind: "number", write: (cell, row) => setFigure(cell, this.now.figure(row.name, row.labels)) },
    ]);
  }

  ofAdapter(what, row) {
    return { selector: `graft_adapter_${what}_total{adapter="${row.name}"}`, value: row[what] };
  }

  writeState(cell, row) {
    if (!cell.firstChild) cell.append(make("span", "chip"));
    const is_up = !this.now.has("up") || this.now.figure("up", row.labels).value > 0;
    const drains = this.now.figure("draining", row.labels).value > 0;
    const [word, look] = !is_up ? ["down", "bad"] : drains ? ["draining", "warn"] : ["up", "good"];
    setText(cell.firstChild, word);
    cell.firstChild.className = "chip " + look;
  }

  writePages(cell, row) {
    if (!cell.firstChild) cell.append(make("div", "bar"));
    const parts = PAGE_PARTS.map(([state, color, title]) => ({ color, title, value: this.now.figure("pages", { ...row.labels, state }).value }));
    setBar(cell.firstChild, parts);
    cell.title = parts.map((part) => `${part.title} ${whole(part.value)}`).join(", ");
  }

  writeShare(cell, row) {
    if (!cell.firstChild) cell.append(make("div", "bar"));
    setBar(cell.firstChild, [{ value: row.requests, color: "c1" }, { value: this.most_requests - row.requests, color: "" }]);
  }

  writePlace(cell, row) {
    if (!cell.firstChild) cell.append(make("span", "chip"));
    const chip = cell.firstChild;
    chip.hidden = !row.state;
    if (!row.state) return;
    const word = row.holders > 0 ? `on ${row.holders} runner${row.holders > 1 ? "s" : ""}`
      : row.holders === 0 ? "on no device" : row.state === "resident" ? "on the device" : row.state === "host" ? "in memory" : row.state;
    setText(chip, word);
    chip.className = "chip " + STATE_CHIPS[row.state];
  }

  writeJobState(cell, row) {
    if (!cell.firstChild) cell.append(make("span", "chip"));
    setText(cell.firstChild, row.status === "validating_files" ? "reading" : row.status);
    cell.firstChild.className = "chip " + JOB_CHIPS[row.status];
    cell.title = row.error;
  }

  writeJobShare(cell, row) {
    if (!cell.firstChild) cell.append(make("div", "bar"));
    const done = row.status === "succeeded" ? 1 : row.total_steps ? row.step / row.total_steps : 0;
    setBar(cell.firstChild, [{ value: done, color: "c1" }, { value: 1 - done, color: "" }]);
  }

  // By the server's clock: when a job ended, ends or came.
  timeOf(row) {
    const now_s = this.now.data.unix_ms / 1000;
    if (row.finished_at) return `ended ${duration(1000 * (now_s - row.finished_at))} ago`;
    if (row.estimated_finish) return row.estimated_finish > now_s ? `${duration(1000 * (row.estimated_finish - now_s))} left` : "ends soon";
    return `came ${duration(1000 * (now_s - row.created_at))} ago`;
  }

  async run() {
    for (;;) {
      await this.refresh();
      await new Promise((done) => setTimeout(done, REFRESH_MS));
    }
  }

  async refresh() {
    let data = null;
    try {
      const headers = this.key ? { Authorization: "Bearer " + this.key } : {};
      const reply = await fetch("dashboard/data?since=" + this.history.next, { headers, cache: "no-store" });
      if (reply.status === 401 || reply.status === 403) return this.askForKey(await reply.json());
      if (!reply.ok) throw new Error(`the server answered ${reply.status}`);
      data = await reply.json();
    } catch (error) {
      return this.setLive(`no answer: ${error.message}`, "bad");
    }
    byId("login").hidden = true;
    byId("main").hidden = false;
    this.show(data);
    const root = document.documentElement.dataset;  // for tests of the page
    root.snapshot = data.snapshot;
    root.refreshes = ++this.num_refreshes;
  }

  askForKey(answer) {
    byId("login").hidden = false;
    byId("main").hidden = true;
    setText(byId("why"), answer.error.message);
    this.setLive("key needed", "warn");
  }

  setLive(text, look) {
    setText(byId("live"), text);
    byId("live").className = "pill " + look;
  }

  show(data) {
    this.now = new Snapshot(data);
    const has_points = this.history.add(data.history);
    setText(byId("about"), `${data.model} · ${data.is_frontend ? "frontend" : "server"} ${data.version} · up ${duration(data.uptime_ms)}`);
    document.title = `Graft · ${data.model}`;
    this.setLive(`live · snapshot ${whole(data.snapshot)}`, "good");
    this.countTokens();
    this.showTiles(data);
    this.showPool();
    this.showLatencies(data);
    this.showPlacement(data);
    this.showAdapters(data);
    this.showJobs(data);
    this.showRunners(data);
    if (has_points) this.drawCharts();
  }

  drawCharts() {
    this.charts.forEach((chart) => chart.draw(this.history, this.minutes));
  }

  // Tokens a second of each runner, over the last few snapshots.
  countTokens() {
    const now_ms = this.now.data.unix_ms;
    for (const name of this.runnerNames()) {
      const tokens = this.now.figure("output_tokens_total", name ? { runner: name } : {}).value;
      const known = this.rates.get(name) || { past: [], rate: null };
      if (known.past.length === 0 || known.past[known.past.length - 1][0] < now_ms) known.past.push([now_ms, tokens]);
      if (known.past.length > 5) known.past.shift();
      const [then_ms, before] = known.past[0];
      if (now_ms > then_ms) known.rate = Math.max(0, (1000 * (tokens - before)) / (now_ms - then_ms));
      this.rates.set(name, known);
    }
  }

  runnerNames() {
    return this.now.has("up") ? this.now.labelValues("up", "runner") : this.now.data.is_frontend ? [] : [""];
  }

  showTiles(data) {
    const now = this.now;
    const [tokens, tokens_small] = this.tiles.get("Tokens/s generated");
    setText(tokens, short(this.history.last("output_tokens")));
    this.tiles.setSmall(tokens_small, [now.figure("output_tokens_total"), " since the start, ", now.figure("prompt_tokens_total"), " of prompts"]);
    const [running, running_small] = this.tiles.get("Requests running");
    setFigure(running, now.figure("requests_running"));
    const unplaced = now.has("requests_unplaced") ? [", ", now.figure("requests_unplaced"), " without a runner"] : [];
    this.tiles.setSmall(running_small, [now.figure("requests_waiting"), " waiting", ...unplaced]);
    for (const [title, key] of [["First token", "first_token"], ["Between tokens", "next_token"]]) {
      const [big, small] = this.tiles.get(title);
      const recent = data.latencies[key].recent;
      setText(big, seconds(recent.p50));
      this.tiles.setSmall(small, [recent.count ? `p99 ${seconds(recent.p99)}, last minute` : "none in the last minute"]);
    }
    const [batch, batch_small] = this.tiles.get("Rows of the last batch");
    setFigure(batch, now.figure("step_rows"));
    this.tiles.setSmall(batch_small, [now.figure("step_rows", { kind: "prompt" }), " of prompts, ", now.figure("step_adapters"), " adapters"]);
    const [adapters, adapters_small] = this.tiles.get("Adapters on devices");
    setFigure(adapters, now.figure("adapters_resident"));
    this.tiles.setSmall(adapters_small, ["of ", now.figure("adapters"), " listed"]);
    if (data.jobs) {
      const [jobs, jobs_small] = this.tiles.get("Fine-tuning jobs running");
      const of = (status) => now.figure("learning_jobs", { status });
      setFigure(jobs, of("running"));
      this.tiles.setSmall(jobs_small, [of("queued"), " queued, ", of("succeeded"), " succeeded, ", of("failed"), " failed"]);
    }
    if (data.is_frontend) {
      const [up, up_small] = this.tiles.get("Runners up");
      setFigure(up, now.figure("up"));
      this.tiles.setSmall(up_small, [`of ${this.runnerNames().length} known, `, now.figure("draining"), " draining"]);
      const [moved, moved_small] = this.tiles.get("Requests moved");
      setFigure(moved, now.figure("migrations_total"));
      this.tiles.setSmall(moved_small, [now.figure("preemptions_total"), " preemptions"]);
    } else {
      const [steps, steps_small] = this.tiles.get("Steps");
      setFigure(steps, now.figure("steps_total"));
      this.tiles.setSmall(steps_small, [now.figure("preemptions_total"), " preemptions"]);
    }
  }

  showPool() {
    const body = bodyOf("pool");
    if (!body.firstChild) {
      body.append(make("div", "bar tall"), make("div", "legend"));
      for (const [, color, title] of PAGE_PARTS) {
        const line = make("span");
        line.append(make("span", "key " + color), title, make("b"));
        body.lastChild.append(line);
      }
    }
    const figures = PAGE_PARTS.map(([state]) => this.now.figure("pages", { state }));
    setBar(body.firstChild, PAGE_PARTS.map(([, color], idx) => ({ color, value: figures[idx].value })));
    figures.forEach((figure, idx) => setFigure(body.lastChild.children[idx].lastChild, figure, whole));
  }

  showLatencies(data) {
    const rows = [];
    for (const [title, key] of [["first token", "first_token"], ["between tokens", "next_token"]]) {
      rows.push({ title: title + ", 1 min", key, recent: true, quantiles: data.latencies[key].recent });
      rows.push({ title: title + ", all", key, quantiles: data.latencies[key].all });
    }
    this.latencies.show(rows);
  }

  showPlacement(data) {
    byId("placement").querySelector("h2").textContent = data.is_frontend ? "Placement and migration" : "Cold starts and ends";
    const rows = data.is_frontend
      ? [...Object.entries(PLACES).map(([adapter, title]) => ({ title: "placed, " + title, name: "placements_total", labels: { adapter } })),
         ...Object.entries(MOVE_REASONS).map(([reason, why]) => ({ title: "moved, " + why, name: "migrations_total", labels: { reason } }))]
      : [...this.now.labelValues("cold_starts_total", "way").map((way) => ({ title: "adapter was loaded, " + way, name: "cold_starts_total", labels: { way } })),
         ...this.now.labelValues("requests_finished_total", "reason").map((reason) => ({ title: "ended, " + reason, name: "requests_finished_total", labels: { reason } }))];
    this.placements.show(rows);
  }

  showAdapters(data) {
    const used = data.adapters.filter((row) => row.requests > 0);
    this.most_requests = Math.max(1, ...used.map((row) => row.requests));
    this.adapters.show(used);
    this.setNote("adapters", used.length ? "" : "No request has come yet.");
  }

  showJobs(data) {
    byId("jobs").hidden = !data.jobs;
    if (!data.jobs) return;
    this.jobs.show(data.jobs);
    this.setNote("jobs", data.jobs.length ? "" : "No job has come yet.");
  }

  showRunners(data) {
    const names = this.runnerNames();
    for (const name of this.rates.keys()) if (!names.includes(name)) this.rates.delete(name);
    byId("runners").querySelector("h2").textContent = data.is_frontend ? "Runners" : "This server";
    this.runners.show(names.map((name) => ({ name: name || data.model, runner: name, labels: name ? { runner: name } : {} })));
    this.setNote("runners", names.length ? "" : "No runner is known.");
  }

  setNote(id, text) {
    let note = byId(id).querySelector(".empty");
    if (!note) {
      note = make("p", "empty");
      byId(id).append(note);
    }
    setText(note, text);
    note.hidden = !text;
  }
}

new Page().run();
