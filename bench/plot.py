#!/usr/bin/env python3
"""Draws what `graft bench adapters --json` wrote, one figure per suite.

  bench/plot.py docs/bench-adapters-*-h200.json --out docs/plots

Several files of throughput-by-adapters or adapters-over-capacity become one figure; of cold-starts the one
with the most ways is drawn. Needs matplotlib (pip install matplotlib), nothing
else of the project does.
"""

import argparse
import json
import os

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

COLORS = ["#0b6e99", "#c8553d", "#5b8c3a", "#7a4e9f", "#b58900", "#555555"]
MARKERS = ["o", "s", "^", "D", "v", "P"]
DPI = 110


def style(axis, title, xlabel, ylabel):
    axis.set_title(title, fontsize=10)
    axis.set_xlabel(xlabel)
    axis.set_ylabel(ylabel)
    axis.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axis.set_axisbelow(True)


def panels(run, count, title):
    # "NVIDIA H200, compute capability 9.0, 139 GiB": the name alone.
    machine = run["device"].split(",")[0]
    shape = os.path.splitext(os.path.basename(run["shape"]))[0]
    figure, axes = pyplot.subplots(1, count, figsize=(4.4 * count, 3.7), layout="constrained")
    figure.suptitle(f"{title}\n{shape}, ranks {', '.join(map(str, run['ranks']))}, batch of {run['sequences_max']}, "
                    f"{machine}", fontsize=10)
    return figure, axes


def line(axis, index, xs, ys, label):
    axis.plot(xs, ys, color=COLORS[index], marker=MARKERS[index], markersize=4, linewidth=1.4, label=label)


def popularity(run):
    return f"Zipf, exponent {run['zipf']:g}" if run.get("zipf") else "uniform" if run["alpha"] == 1 else \
        f"alpha {run['alpha']:g}"


def plot_throughput(runs):
    figure, (throughput, latency) = panels(runs[0], 2, "Throughput by number of adapters (S-LoRA, Figure 6)")
    lines = [(run, pool) for run in runs for pool in dict.fromkeys(row["pool"] for row in run["rows"])]
    for index, (run, pool) in enumerate(lines):
        rows = [row for row in run["rows"] if row["pool"] == pool]
        counts = [row["adapters"] for row in rows]
        label = popularity(run) + ("" if pool == "shared" else f", {pool} pool")
        line(throughput, index, counts, [row["tokens_per_second"] for row in rows], label)
        line(latency, index, counts, [row["token_ms"]["mean"] for row in rows], label)
    for axis in (throughput, latency):
        axis.set_xscale("log")
        axis.set_ylim(0, 1.15 * axis.get_ylim()[1])
    style(throughput, "tokens of answers per second", "adapters", "tokens/s")
    style(latency, "time per token", "adapters", "ms")
    throughput.legend(fontsize=8)
    return figure


def plot_over_capacity(runs):
    figure, (throughput, wait) = panels(runs[0], 2, "More adapters than slots, all equally popular")
    for index, run in enumerate(runs):
        slots = run["rows"][0]["slots"]
        label = f"{slots} slots" + (f", {run['in_flight']} in flight" if run.get("in_flight") else "")
        closed = [row for row in run["rows"] if row["requests_per_second_asked"] == 0]
        opened = [row for row in run["rows"] if row["requests_per_second_asked"] > 0]
        line(throughput, index, [row["adapters"] / slots for row in closed], [row["over_all_fit"] for row in closed],
             label)
        for share, dashes in (("p50", "--"), ("p99", "-")):
            wait.plot([row["adapters"] / slots for row in opened], [row["first_token_ms"][share] for row in opened],
                      dashes, color=COLORS[index], marker=MARKERS[index], markersize=4, linewidth=1.4,
                      label=f"{slots} slots, {share.upper()}")
    throughput.set_ylim(0, 1.1)
    wait.set_yscale("log")
    style(throughput, "throughput / all fit, requests without end", "adapters per slot", "")
    style(wait, "wait for the first token at 0.7 of what all-fit serves", "adapters per slot", "ms")
    throughput.legend(fontsize=8)
    wait.legend(fontsize=8)
    return figure


def plot_cold_starts(runs):
    run = max(runs, key=lambda run: len(run["rows"]))
    figure, axes = panels(run, 3, "Cold starts (CaraServe, Figure 10): share of requests within a time")
    names = {"first_token_ms": "time to first token", "token_ms": "time per token", "total_ms": "latency"}
    for axis, (key, title) in zip(axes, names.items()):
        for index, row in enumerate(run["rows"]):
            points = row[key]["distribution"]
            axis.plot(points, [i / 100 for i in range(len(points))], color=COLORS[index], linewidth=1.4,
                      label=row["cold_start"])
        style(axis, title, "ms", "share of requests")
    axes[0].legend(fontsize=8)
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


PLOTS = {"throughput-by-adapters": plot_throughput, "adapters-over-capacity": plot_over_capacity,
         "cold-starts": plot_cold_starts, "stall": plot_stall, "pool": plot_pool, "slo": plot_slo}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("json", nargs="+", help="what graft bench adapters --json wrote")
    parser.add_argument("--out", default="docs/plots", help="folder for the figures")
    args = parser.parse_args()
    suites = {}
    for path in args.json:
        with open(path) as file:
            run = json.load(file)
        suites.setdefault(run["suite"], []).append(run)
    os.makedirs(args.out, exist_ok=True)
    for suite, runs in suites.items():
        path = os.path.join(args.out, f"adapters-{suite.removeprefix('adapters-')}.png")
        PLOTS[suite](runs).savefig(path, dpi=DPI)
        print(path)


if __name__ == "__main__":
    main()
