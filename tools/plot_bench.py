#!/usr/bin/env python3
"""Draws Punica's Figures 7 to 9 from what `graft bench ops --json` wrote.

  tools/plot_bench.py docs/bench-ops-h200.json --out docs/plots

Needs matplotlib (pip install matplotlib), nothing else of the project does.
"""

import argparse
import json
import os

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

LAWS = ["distinct", "uniform", "skewed", "identical"]
METHODS = {"segmented": "ours, segmented", "loop": "loop over rows", "gather-bmm": "gather-bmm"}
COLORS = ["#0b6e99", "#c8553d", "#5b8c3a", "#7a4e9f"]
MARKERS = ["o", "s", "^", "D"]
BATCHES = [1, 2, 4, 8, 16, 32, 64]
FIGURE_RANK = 16  # of Figures 7 and 8
DPI = 110


class Bench:
    """The LoRA rows of one file, by law, rank, method and rows."""

    def __init__(self, path):
        with open(path) as file:
            content = json.load(file)
        machine = content["machine"]
        # "NVIDIA H200, compute capability 9.0, 139 GiB": the name alone.
        self.machine = machine.get("device", machine["processor"]).split(",")[0]
        self.rows = [row for row in content["rows"] if row["op"] == "lora" and "method" in row]
        if not self.rows:
            raise SystemExit(f"{path} has no rows of lora")
        self.gbytes_per_s = self.rows[0]["peak_gbytes_per_s"]
        self.gflops = max(row["peak_gflops"] for row in self.rows)
        self.ranks = sorted({row["rank"] for row in self.rows})

    def series(self, law, rank, method="segmented", rows_max=BATCHES[-1]):
        """Rows of rising batch. All laws are the same at batch 1, which is measured once."""
        found = [
            row
            for row in self.rows
            if row["rank"] == rank
            and row["method"] == method
            and row["rows"] <= rows_max
            and (row["law"] == law or row["rows"] == 1)
        ]
        return sorted(found, key=lambda row: row["rows"])


def panels(title):
    figure, axes = pyplot.subplots(1, 4, figsize=(13, 3.6), sharey=True, layout="constrained")
    figure.suptitle(title, fontsize=11)
    for axis, law in zip(axes, LAWS):
        axis.set_title(law, fontsize=10)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(BATCHES, [str(batch) for batch in BATCHES])
        axis.set_xlabel("batch (rows)")
        axis.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes[0].set_ylabel("latency (us)")
    return figure, axes


def plain_latency_ticks(axis, lowest, highest):
    ticks = [tick for tick in (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 500, 1000, 5000, 20000)
             if lowest <= tick <= highest]
    axis.set_yticks(ticks, [str(tick) for tick in ticks])
    axis.minorticks_off()


def line(axis, rows, index, label):
    axis.plot([row["rows"] for row in rows], [row["median_us"] for row in rows],
              color=COLORS[index], marker=MARKERS[index], markersize=4, linewidth=1.4, label=label)


def plot_intensities(axis, rows, index, label):
    """Filled marks where there is a label for the legend."""
    intensities = [row["flops"] / row["bytes"] for row in rows]
    achieved = [row["gflops"] / 1e3 for row in rows]
    axis.plot(intensities, achieved, color=COLORS[index], marker=MARKERS[index], markersize=5,
              markerfacecolor=COLORS[index] if label else "white", linewidth=1.2 if label else 0.7,
              label=label)
    wanted = {"identical": (1, 4, 16, 64, 512, 2048), "distinct": (64,), "uniform": (64,)}
    for x, y, row in zip(intensities, achieved, rows):
        if row["rows"] in wanted.get(LAWS[index], ()):
            offset = (-16, -3) if LAWS[index] == "distinct" else (6, -4)
            axis.annotate(str(row["rows"]), (x, y), xytext=offset, textcoords="offset points",
                          fontsize=8, color=COLORS[index])


def plot_roofline(bench):
    figure, axis = pyplot.subplots(figsize=(7.5, 5), layout="constrained")
    ridge = bench.gflops / bench.gbytes_per_s
    intensities = [0.3, ridge, 3 * ridge]
    roof = [min(bench.gflops, x * bench.gbytes_per_s) / 1e3 for x in intensities]
    axis.plot(intensities, roof, color="black", linewidth=1.2)
    axis.annotate(f"copy, {bench.gbytes_per_s / 1e3:.2f} TB/s", (6, 6 * bench.gbytes_per_s / 1e3),
                  xytext=(-8, 4), textcoords="offset points", ha="right", fontsize=9)
    axis.annotate(f"GEMM of 8192, {bench.gflops / 1e3:.0f} TFLOP/s", (ridge, bench.gflops / 1e3),
                  xytext=(0, 6), textcoords="offset points", ha="center", fontsize=9)
    for rank in (FIGURE_RANK, bench.ranks[-1]):
        for index, law in enumerate(LAWS):
            plot_intensities(axis, bench.series(law, rank, rows_max=1 << 20), index,
                             law if rank == FIGURE_RANK else None)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_ylim(top=4e-3 * bench.gflops)
    axis.set_xlabel("arithmetic intensity (FLOP per byte of device memory)")
    axis.set_ylabel("achieved (TFLOP/s)")
    axis.set_title(f"y += x A B, h 4096, bf16, {bench.machine}\nrank {FIGURE_RANK}, hollow: rank "
                   f"{bench.ranks[-1]}; beside the marks: rows of the batch", fontsize=11)
    axis.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axis.legend(title="popularity", fontsize=9, loc="lower right")
    return figure


def plot_laws(bench):
    figure, axes = panels(f"y += x A B, h 4096, rank {FIGURE_RANK}, bf16, {bench.machine}")
    for axis, law in zip(axes, LAWS):
        for index, (method, label) in enumerate(METHODS.items()):
            line(axis, bench.series(law, FIGURE_RANK, method), index, label)
    highest = max(row["median_us"] for law in LAWS
                  for method in METHODS for row in bench.series(law, FIGURE_RANK, method))
    axes[0].set_ylim(bottom=1)
    plain_latency_ticks(axes[0], 1, 1.2 * highest)
    axes[0].legend(fontsize=8)
    return figure


def plot_ranks(bench):
    figure, axes = panels(f"y += x A B, h 4096, ranks 8 to 64, bf16, ours, {bench.machine}")
    for axis, law in zip(axes, LAWS):
        for index, rank in enumerate(bench.ranks):
            line(axis, bench.series(law, rank), index, f"rank {rank}")
    highest = max(row["median_us"] for rank in bench.ranks
                  for law in LAWS for row in bench.series(law, rank))
    axes[0].set_ylim(bottom=1)
    plain_latency_ticks(axes[0], 1, 1.2 * highest)
    axes[0].legend(fontsize=8)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("json", help="what graft bench ops --json wrote")
    parser.add_argument("--out", default="docs/plots", help="folder for the figures")
    args = parser.parse_args()
    bench = Bench(args.json)
    os.makedirs(args.out, exist_ok=True)
    figures = {"fig7-roofline": plot_roofline, "fig8-laws": plot_laws, "fig9-ranks": plot_ranks}
    for name, plot in figures.items():
        path = os.path.join(args.out, name + ".png")
        plot(bench).savefig(path, dpi=DPI)
        print(path)


if __name__ == "__main__":
    main()
