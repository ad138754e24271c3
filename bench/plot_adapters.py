#!/usr/bin/env python3
"""Draws what `graft-bench adapters --json` and `graft-bench assist --json` wrote, S-LoRA's and CaraServe's figures.

  bench/plot_adapters.py bench/results/adapters-*-h200.json bench/results/assist*-h200.json --out docs/plots

Several files of a suite become one figure, but for cold-starts, which has one for each of CaraServe's: distributions of
the file with the most ways; by number of adapters; by load; by rank and load. Needs matplotlib (pip install
matplotlib), nothing else of the project does.
"""

from plotting import COLORS, GRID, MARKERS, device_of, kernel_of, line, pyplot, read_arguments, save, shape_of


def style(axis, title, xlabel, ylabel):
    axis.set_title(title, fontsize=10)
    axis.set_xlabel(xlabel)
    axis.set_ylabel(ylabel)
    axis.grid(True, **GRID)
    axis.set_axisbelow(True)


def bare_panels(count, title):
    figure, axes = pyplot.subplots(1, count, figsize=(4.4 * count, 3.7), layout="constrained")
    figure.suptitle(title, fontsize=10)
    return figure, axes


def panels(run, count, title):
    return bare_panels(count, f"{title}\n{setting(run)}, {device_of(run)}")


def popularity(run):
    return f"Zipf, exponent {run['zipf']:g}" if run.get("zipf") else "uniform" if run["alpha"] == 1 else \
        f"alpha {run['alpha']:g}"


def setting(run):
    """Of S-LoRA's Table 4: a model and its adapters' ranks; and the batch."""
    return f"{shape_of(run)}, ranks {', '.join(map(str, run['ranks']))}, batch of {run['sequences_max']}"


def plot_throughput(runs):
    """Figure 6 of the setting that most runs have; over the fewest adapters, all settings."""
    settings = [setting(run) for run in runs]
    main = max(settings, key=settings.count)
    runs = sorted(runs, key=lambda run: setting(run) != main)
    figure, (throughput, token, latency, ratio) = panels(
        runs[0], 4, "Throughput by number of adapters (S-LoRA, Table 4 and Figure 6)")
    def key(row):
        return row["pool"], row.get("requests_per_second_asked", 0)  # 0: without end

    lines = [(run, *line) for run in runs for line in dict.fromkeys(key(row) for row in run["rows"])]
    for index, (run, pool, rate) in enumerate(lines):
        rows = [row for row in run["rows"] if key(row) == (pool, rate)]
        counts = [row["adapters"] for row in rows]
        kernel = kernel_of(run)
        label = popularity(run) + ("" if pool == "shared" else f", {pool} pool") + \
            ("" if kernel == "segmented" else f", {kernel}") + ("" if rate == 0 else f", {rate:g} requests/s")
        if setting(run) != main:
            label = f"{label}: {setting(run)}"
        line(ratio, index, counts, [row["over_first"] for row in rows], label)
        if setting(run) != main:
            continue
        line(throughput, index, counts, [row["tokens_per_second"] for row in rows], label)
        line(token, index, counts, [row["token_ms"]["mean"] for row in rows], label)
        line(latency, index, counts, [row["total_ms"]["mean"] / 1e3 for row in rows], label)
    for axis in (throughput, token, latency, ratio):
        axis.set_xscale("log")
        axis.set_ylim(0, 1.15 * axis.get_ylim()[1])
    ratio.set_ylim(0.6, 1.02)
    style(throughput, "tokens of answers per second", "adapters", "tokens/s")
    style(token, "time per token, mean", "adapters", "ms")
    style(latency, "a request's latency, mean", "adapters", "s")
    style(ratio, "throughput over that of the fewest adapters", "adapters", "")
    ratio.legend(fontsize=7, loc="lower left")
    return figure


def plot_over_capacity(runs):
    figure, (throughput, wait) = panels(runs[0], 2, "More adapters than slots")
    for index, run in enumerate(runs):
        slots = run["rows"][0]["slots"]
        label = f"{slots} slots" + (f", {run['in_flight']} in flight" if run.get("in_flight") else "") + \
            ("" if popularity(run) == "uniform" else f", {popularity(run)}")
        rows = sorted(run["rows"], key=lambda row: row["adapters"])
        closed = [row for row in rows if row["requests_per_second_asked"] == 0]
        opened = [row for row in rows if row["requests_per_second_asked"] > 0]
        line(throughput, index, [row["adapters"] / slots for row in closed], [row["over_all_fit"] for row in closed],
             label)
        for share, dashes in (("p50", "--"), ("p99", "-")):
            wait.plot([row["adapters"] / slots for row in opened], [row["first_token_ms"][share] for row in opened],
                      dashes, color=COLORS[index], marker=MARKERS[index], markersize=4, linewidth=1.4,
                      label=f"{label}, {share.upper()}")
    throughput.set_ylim(0, 1.1)
    throughput.set_xscale("log")
    wait.set_xscale("log")
    wait.set_yscale("log")
    style(throughput, "throughput / all fit, requests without end", "adapters per slot", "")
    style(wait, "wait for the first token at 0.7 of what all-fit serves", "adapters per slot", "ms")
    throughput.legend(fontsize=8)
    wait.legend(fontsize=8)
    return figure


LATENCIES = {"first_token_ms": "time to first token", "token_ms": "time per token", "total_ms": "latency"}


def of_way(run, way):
    return [row for row in run["rows"] if row["cold_start"] == way]


def ways_of(run):
    return list(dict.fromkeys(row["cold_start"] for row in run["rows"]))


def plot_cold_starts(runs):
    run = max(runs, key=lambda run: len(run["rows"]))
    figure, axes = panels(run, 3, "Cold starts (CaraServe, Figure 10): share of requests within a time")
    for axis, (key, title) in zip(axes, LATENCIES.items()):
        for index, row in enumerate(run["rows"]):
            points = row[key]["distribution"]
            axis.plot(points, [i / 100 for i in range(len(points))], color=COLORS[index], linewidth=1.4,
                      label=row["cold_start"])
        style(axis, title, "ms", "share of requests")
        # The last few of `blocking` would leave no room for all others.
        axis.set_xlim(right=1.2 * max(row[key]["distribution"][95] for row in run["rows"]))
    axes[0].legend(fontsize=8)
    return figure


def plot_cold_starts_by_adapters(runs):
    run = runs[0]
    figure, axes = panels(run, 4, f"Popularity as of Azure's functions (CaraServe, Figures 12 and 14), "
                                  f"{run['rows'][-1]['slots']} slots")
    shares = of_way(run, "cached")[-1]["popularity"]
    axes[0].plot(range(1, len(shares) + 1), [100 * share / sum(shares) for share in shares], color=COLORS[0],
                 linewidth=1.4)
    axes[0].set_xscale("log")
    axes[0].set_yscale("log")
    style(axes[0], "who is asked for", "adapter, by popularity", "% of the requests")
    for axis, (key, title) in zip(axes[1:], LATENCIES.items()):
        for index, way in enumerate(ways_of(run)):
            rows = of_way(run, way)
            line(axis, index, [row["adapters"] for row in rows], [row[key]["mean"] for row in rows], way)
        axis.set_ylim(bottom=0)
        style(axis, title + ", mean", "adapters, each with its requests", "ms")
    axes[1].legend(fontsize=8)
    return figure


def plot_cold_starts_by_load(runs):
    run = runs[0]
    figure, (shares, means) = panels(run, 2, "What cold starts are of a request's time (CaraServe, Figure 3, left)")
    for index, row in enumerate(of_way(run, "blocking")):
        points = [100 * share for share in row["cold_share"]["distribution"]]
        shares.plot(points, [i / 100 for i in range(len(points))], color=COLORS[index], linewidth=1.4,
                    label=f"load {row['load']:g}")
    shares.set_xlim(-10, 50)
    style(shares, "blocking", "% of the request's time", "share of requests")
    shares.legend(fontsize=8)
    for index, way in enumerate(ways_of(run)):
        rows = [row for row in of_way(run, way) if "cold_share" in row]
        if rows:
            line(means, index, [row["load"] for row in rows], [100 * row["cold_share"]["mean"] for row in rows], way)
    means.set_ylim(bottom=0)
    style(means, "mean", "request rate / capacity", "% of a request's time")
    means.legend(fontsize=8)
    return figure


def plot_cold_starts_by_rank(runs):
    """Rank 32 and 64, loads of one and the other: what each way costs over cached; and iterations."""
    points = [(run, load) for run in runs for load in dict.fromkeys(row["load"] for row in run["rows"])]
    names = [f"rank {run['ranks'][0]}\nload {load:g}" for run, load in points]
    figure, axes = panels({**runs[0], "ranks": sorted(run["ranks"][0] for run in runs)}, 4,
                          "Cold starts by rank and load (CaraServe, Figure 13), and iterations (Figure 11)")
    ways = list(dict.fromkeys(way for run in runs for way in ways_of(run)))
    for axis, (key, title) in zip(axes, {"first_token": "first token", "token": "per token",
                                         "total": "latency"}.items()):
        for index, way in enumerate(ways[1:]):
            for at, (run, load) in enumerate(points):
                for row in of_way(run, way):
                    if row["load"] == load:
                        axis.bar(at + 0.25 * (index - 1), 100 * row["over_cached"][key]["mean"], width=0.23,
                                 color=COLORS[index + 1], label=way if at == len(points) - 1 else None)
        axis.set_xticks(range(len(points)), names, fontsize=8)
        style(axis, f"{title}, mean over cached", "", "%")
    axes[0].legend(fontsize=8)
    run, load = points[-1]
    for index, way in enumerate(ways):
        row = [row for row in of_way(run, way) if row["load"] == load][0]
        for at, key in enumerate(("prompt_iteration_ms", "decode_iteration_ms")):
            axes[3].bar(at + 0.2 * (index - 1.5), row[key], width=0.18, color=COLORS[index],
                        label=None if at else way)
    axes[3].set_xticks([0, 1], ["with prompts", "decode alone"], fontsize=8)
    style(axes[3], f"mean iteration, rank {run['ranks'][0]}, load {load:g}", "", "ms")
    axes[3].legend(fontsize=8)
    return figure


def plot_assist(runs):
    run = runs[0]
    figure, (stopped, single, several) = bare_panels(
        3, f"CPU assist, a prompt's step (CaraServe, Figures 16 and 18)\nrank {run['rank']}, {run['modules']}, "
           f"{device_of(run)}, {run['machine']['cpus']} CPUs")
    most = max(row["workers"] for row in run["rows"])
    rows = [row for row in run["rows"] if row["workers"] == most]
    for index, (key, label) in enumerate({"flags_ms": "by flags", "synchronised_ms": "stream stopped",
                                          "device_ms": "on the device"}.items()):
        line(stopped, index, [row["rows"] for row in rows], [row[key] for row in rows], label)
    style(stopped, f"{most} workers (16)", "tokens of the prompt", "ms")
    rows = [row for row in run["rows"] if row["workers"] == 1]
    line(single, 0, [row["rows"] for row in rows], [row["flags_ms"] for row in rows], "one worker")
    style(single, "one worker (18, left)", "tokens of the prompt", "ms")
    tokens = max(row["rows"] for row in run["rows"])
    rows = [row for row in run["rows"] if row["rows"] == tokens]
    for index, (key, label) in enumerate({"flags_ms": "tokens split over workers",
                                          "threaded_ms": "one worker, threads in its kernels"}.items()):
        line(several, index, [row["workers"] for row in rows], [row[key] for row in rows], label)
    style(several, f"{tokens} tokens (18, right)", "cores", "ms")
    for axis in (stopped, single, several):
        axis.set_ylim(bottom=0)
    stopped.legend(fontsize=8)
    several.legend(fontsize=8)
    return figure


def plot_assist_ipc(runs):
    run = runs[0]
    figure, axis = bare_panels(1, f"Rows to worker processes and back (CaraServe, Figure 17)\nq, k and v of a layer, "
                                  f"rank {run['rank']}, {run['prompt_rows']} tokens, {run['machine']['cpus']} CPUs")
    figure.set_size_inches(5.6, 4)
    for index, (key, label) in enumerate({"shared_us": "shared memory", "socket_us": "UNIX sockets",
                                          "shared_handoff_us": "shared memory, hand-off alone",
                                          "socket_handoff_us": "UNIX sockets, hand-off alone"}.items()):
        line(axis, index, [row["workers"] for row in run["rows"]], [row[key] / 1e3 for row in run["rows"]], label)
    axis.set_yscale("log")
    axis.set_ylim(top=8 * axis.get_ylim()[1])
    style(axis, "", "worker processes", "ms")
    axis.legend(fontsize=8)
    return figure


def plot_stall(runs):
    run = runs[0]
    figure, (copy, stall) = panels(run, 2, "One adapter loads while a full batch decodes")
    for index, way in enumerate(dict.fromkeys(row["cold_start"] for row in run["rows"])):
        rows = [row for row in run["rows"] if row["cold_start"] == way]
        ranks = [row["rank"] for row in rows]
        line(copy, index, ranks, [row["copy_ms"] for row in rows], way)
        line(stall, index, ranks, [100 * row["stall_share_of_step"] for row in rows], way)
    style(copy, "copy to the device (CaraServe, Figure 3)", "rank", "ms")
    style(stall, "what others lose, of one step", "rank", "%")
    copy.set_ylim(bottom=0)
    copy.legend(fontsize=8)
    return figure


def plot_pool(runs):
    run = runs[0]
    figure, axes = panels(run, 2, f"One pool and static splits of {run['pool_gib']:g} GiB")
    for axis, count in zip(axes, dict.fromkeys(row["adapters"] for row in run["rows"])):
        rows = [row for row in run["rows"] if row["adapters"] == count]
        labels = ["shared" if row["pool"] == "shared" else f"{row['adapter_share']:g}" for row in rows]
        bars = axis.bar(labels, [row["tokens_per_second"] for row in rows], width=0.6,
                        color=[COLORS[0]] + [COLORS[1]] * (len(rows) - 1))
        axis.bar_label(bars, fmt="%.0f", fontsize=8)
        axis.margins(y=0.12)
        style(axis, f"{count} adapters", "shared, or adapters' share of a static pool", "tokens/s")
    return figure


def plot_slo(runs):
    run = runs[0]
    figure, axes = panels(run, 3, f"First token within {run['slo_ms']:g} ms (S-LoRA's SLO attainment)")
    names = {"load": "request rate / capacity", "cv": "variation of arrivals (cv)", "alpha": "skew (alpha; 1: none)"}
    for axis, (varied, label) in zip(axes, names.items()):
        rows = [row for row in run["rows"] if row["varied"] == varied]
        values = [row["value"] for row in rows]
        line(axis, 0, values, [row["slo_attainment"] for row in rows], "SLO attainment")
        line(axis, 1, values, [row["user_satisfaction"] for row in rows], "user satisfaction")
        axis.set_ylim(0, 1.05)
        style(axis, "", label, "")
    axes[0].legend(fontsize=8, loc="lower left")
    return figure


def plot_traces(runs):
    run = runs[0]
    rows = [row for run in runs for row in run["rows"]]
    figure, (shares, waits) = panels(run, 2, f"Recorded arrivals and lengths, first token within {run['slo_ms']:g} ms")
    names = [row["value"].split(".")[0].replace("_", "\n", 1) for row in rows]
    for index, (key, label) in enumerate({"slo_attainment": "SLO attainment",
                                          "user_satisfaction": "user satisfaction"}.items()):
        shares.bar([at + 0.36 * (index - 0.5) for at in range(len(rows))], [row[key] for row in rows], width=0.34,
                   color=COLORS[index], label=label)
    for index, share in enumerate(("p50", "p99")):
        waits.bar([at + 0.36 * (index - 0.5) for at in range(len(rows))], [row["first_token_ms"][share] for row in rows],
                  width=0.34, color=COLORS[index], label=share.upper())
    waits.set_yscale("log")
    for axis in (shares, waits):
        axis.set_xticks(range(len(rows)), names, fontsize=7)
        axis.legend(fontsize=8, loc="lower right")
    style(shares, "", "", "")
    style(waits, "wait for the first token", "", "ms")
    return figure


def cold_starts_figures(runs):
    """Which of CaraServe's figures a run is for, by what it goes through; what only repeats a way or two is not drawn."""
    by_name = {}
    for run in runs:
        ways = ways_of(run)
        if "popularity" in run["rows"][0]:
            by_adapters = len({row["adapters"] for row in run["rows"]}) > 1
            name, plot = ("cold-starts-by-adapters", plot_cold_starts_by_adapters) if by_adapters else \
                ("cold-starts-by-load", plot_cold_starts_by_load)
        elif "layerwise" in ways:
            name, plot = "cold-starts", plot_cold_starts
        elif "blocking" in ways:
            name, plot = "cold-starts-by-rank", plot_cold_starts_by_rank
        else:
            continue
        by_name.setdefault(name, (plot, []))[1].append(run)
    return by_name


PLOTS = {"throughput-by-adapters": plot_throughput, "adapters-over-capacity": plot_over_capacity, "stall": plot_stall,
         "pool": plot_pool, "slo": plot_slo, "traces": plot_traces,
         "assist": plot_assist,
         "assist-ipc": plot_assist_ipc}


def main():
    all_runs, folder = read_arguments(__doc__, "adapters or assist")
    suites = {}
    for run in all_runs:
        suites.setdefault(run["suite"], []).append(run)
    figures = {suite: (PLOTS[suite], runs) for suite, runs in suites.items() if suite in PLOTS}
    figures.update(cold_starts_figures(suites.get("cold-starts", [])))
    drawn = {}
    for name, (plot, runs) in figures.items():
        prefix = "" if name.startswith("assist") else "adapters-"
        drawn[prefix + name.removeprefix("adapters-")] = plot(runs)
    save(drawn, folder)


if __name__ == "__main__":
    main()
