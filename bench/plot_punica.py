#!/usr/bin/env python3
"""Draws Punica's Figures 7 to 11 from what `graft-bench ops`, `step` and `serve` wrote with --json.

  bench/plot_punica.py bench/results/ops-h200.json --out docs/plots
  bench/plot_punica.py build/punica-results/*.json --out docs/plots

Files of `ops` give Figures 7 to 9, one of `step` with several batches Figure 10, those of `serve` together
Figure 11 (bench/punica.sh writes both). Needs matplotlib (pip install matplotlib), nothing else of the project does.
"""

from plotting import COLORS, GRID, MARKERS, device_of, line, pyplot, read_arguments, save, shape_of

LAWS = ["distinct", "uniform", "skewed", "identical"]
METHODS = {"segmented": "ours, segmented", "loop": "loop over rows", "gather-bmm": "gather-bmm"}
BATCHES = [1, 2, 4, 8, 16, 32, 64]
FIGURE_RANK = 16  # of Figures 7 and 8


class Bench:
    """The LoRA rows of one file, by law, rank, method and rows."""

    def __init__(self, content):
        self.machine = device_of(content)
        self.rows = [row for row in content["rows"] if row["op"] == "lora" and "method" in row]
        if not self.rows:
            raise SystemExit("a file of bench ops has no rows of lora")
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
        axis.grid(True, **GRID)
    axes[0].set_ylabel("latency (us)")
    return figure, axes


def plain_latency_ticks(axis, lowest, highest):
    ticks = [tick for tick in (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 500, 1000, 5000, 20000)
             if lowest <= tick <= highest]
    axis.set_yticks(ticks, [str(tick) for tick in ticks])
    axis.minorticks_off()


def latencies(axis, rows, index, label):
    line(axis, index, [row["rows"] for row in rows], [row["median_us"] for row in rows], label)


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
    axis.grid(True, **GRID)
    axis.legend(title="popularity", fontsize=9, loc="lower right")
    return figure


def plot_laws(bench):
    figure, axes = panels(f"y += x A B, h 4096, rank {FIGURE_RANK}, bf16, {bench.machine}")
    for axis, law in zip(axes, LAWS):
        for index, (method, label) in enumerate(METHODS.items()):
            latencies(axis, bench.series(law, FIGURE_RANK, method), index, label)
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
            latencies(axis, bench.series(law, rank), index, f"rank {rank}")
    highest = max(row["median_us"] for rank in bench.ranks
                  for law in LAWS for row in bench.series(law, rank))
    axes[0].set_ylim(bottom=1)
    plain_latency_ticks(axes[0], 1, 1.2 * highest)
    axes[0].legend(fontsize=8)
    return figure


def plot_layers(step):
    """Figure 10: a layer of a decode step, by batch; a panel for each context."""
    contexts = list(dict.fromkeys(row["context"] for row in step["decode"]))
    figure, axes = pyplot.subplots(1, len(contexts), figsize=(4.6 * len(contexts), 3.8), sharey=True,
                                   squeeze=False, layout="constrained")
    figure.suptitle(f"A decode step over its {step['layers']} layers, {shape_of(step)}, rank "
                    f"{', '.join(map(str, step['ranks']))}, {step['dtype']}, {device_of(step)}", fontsize=11)
    for axis, context in zip(axes[0], contexts):
        for index, law in enumerate(["base, server without LoRA", *LAWS]):
            rows = [row for row in step["decode"] if row["context"] == context and row["adapters"] == law]
            batches = [row["batch"] for row in rows]
            color = COLORS[index - 1] if index > 0 else "#555555"
            axis.plot(batches, [row["median_ms"] * 1e3 / step["layers"] for row in rows], color=color,
                      marker=MARKERS[index - 1] if index > 0 else "v", markersize=4, linewidth=1.4,
                      label=law if index > 0 else "base model")
            if law in ("base, server without LoRA", "distinct"):
                axis.plot(batches, [row["floor_ms"] * 1e3 / step["layers"] for row in rows], color=color,
                          linewidth=0.9, linestyle=":", label="the bytes alone" if index == 0 else None)
        axis.set_title(f"context of {context} tokens", fontsize=10)
        axis.set_xscale("log", base=2)
        axis.set_xticks(batches, [str(batch) for batch in batches])
        axis.set_xlabel("batch (rows)")
        axis.grid(True, **GRID)
    axes[0][0].set_ylim(bottom=0)
    axes[0][0].set_ylabel("latency of a layer (us)")
    axes[0][0].legend(fontsize=8)
    return figure


PUNICA_A100 = 1044  # tokens per second, its section 7.2


def plot_serving(runs):
    """Figure 11: throughput under each law, of several runs that each served the base model, too."""
    bars = {}
    for run in runs:
        names = {"base": "base model", "base_in_lora": "base rows,\nLoRA server", "lora": run["popularity"]}
        of_run = {scenario["name"]: scenario["tokens_per_second"] for scenario in run["scenarios"]}
        for name, tokens_per_second in of_run.items():
            label = names.get(name, name.removeprefix("lora_"))
            bars.setdefault(label, []).append((tokens_per_second, tokens_per_second / of_run["base"]))
    order = [label for label in ("base model", "base rows,\nLoRA server", *LAWS) if label in bars]
    figure, axis = pyplot.subplots(figsize=(7.5, 4.2), layout="constrained")
    colors = dict(zip(LAWS, COLORS))
    for x, label in enumerate(order):
        # The base model was served beside each run's laws: the mean.
        throughput, ratio = (sum(side) / len(side) for side in zip(*bars[label]))
        axis.bar(x, throughput, width=0.65, color=colors.get(label, "#888888"))
        axis.annotate(f"{throughput:,.0f}" + (f"\n{ratio:.3f}" if label in LAWS else ""), (x, throughput),
                      xytext=(0, 3), textcoords="offset points", ha="center", fontsize=9)
    axis.axhline(PUNICA_A100, color="black", linewidth=0.9, linestyle="--")
    axis.annotate(f"Punica,\nA100: {PUNICA_A100:,}", (len(order) - 0.6, PUNICA_A100), xytext=(0, 4),
                  textcoords="offset points", fontsize=9)
    axis.set_xlim(-0.5, len(order) + 0.1)
    axis.set_xticks(range(len(order)), order)
    axis.set_ylim(top=1.18 * max(throughput for bar in bars.values() for throughput, _ in bar))
    axis.set_ylabel("output tokens per second")
    axis.set_axisbelow(True)
    axis.grid(True, axis="y", **GRID)
    run = runs[0]
    axis.set_title(f"{run['requests']} requests of ShareGPT's lengths, {run['batch']} at once, {shape_of(run)}, rank "
                   f"{run['rank']}, {run['dtype']}, {device_of(run)}\non the bars: tokens per second, and over the "
                   "base model's of the same run", fontsize=10)
    return figure


def main():
    contents, folder = read_arguments(__doc__, "ops, step or serve")
    figures = {}
    served = []
    for content in contents:
        if "scenarios" in content:
            served.append(content)
        elif "decode" in content:
            figures["fig10-layer"] = plot_layers(content)
        else:
            bench = Bench(content)
            figures |= {"fig7-roofline": plot_roofline(bench), "fig8-laws": plot_laws(bench),
                        "fig9-ranks": plot_ranks(bench)}
    if served:
        figures["fig11-serving"] = plot_serving(served)
    save(figures, folder)


if __name__ == "__main__":
    main()
