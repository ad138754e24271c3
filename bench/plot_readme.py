#!/usr/bin/env python3
"""Draws README's picture, throughput against the number of adapters, from what `graft-bench adapters --suite
throughput-by-adapters --json` wrote.

  bench/plot_readme.py bench/results/adapters-throughput-h200.json bench/results/adapters-throughput-bmm-h200.json
"""

from plotting import COLORS, GRID, device_of, kernel_of, pyplot, read_arguments, save, shape_of

LABELS = {"segmented": "Graft", "after": "Graft, --tune lora=after",
          "bmm": "padded copies of the adapters (S-LoRA's baseline, in an earlier Graft)"}


def points_of(run):
    """(adapters, tokens per second) of the shared pool, in order of adapters."""
    rows = [row for row in run["rows"] if row.get("pool", "shared") == "shared"]
    return sorted((row["adapters"], row["tokens_per_second"]) for row in rows)


def draw(runs):
    figure, axis = pyplot.subplots(figsize=(7.2, 3.4), constrained_layout=True)
    for index, run in enumerate(runs):
        xs, ys = zip(*points_of(run))
        axis.plot(xs, ys, color=COLORS[index], marker="o", markersize=4.5, linewidth=1.8,
                  label=LABELS[kernel_of(run)])
    axis.set_xscale("log")
    axis.set_ylim(bottom=0)
    axis.set_xlabel("LoRA adapters served by one GPU")
    axis.set_ylabel("answers, tokens/s")
    run = runs[0]
    ranks = ", ".join(map(str, run["ranks"]))
    axis.set_title(f"{shape_of(run)}, {device_of(run)}, batch of {run['sequences_max']}, ranks {ranks}, all equally popular",
                   fontsize=9)
    axis.grid(**GRID)
    axis.legend(loc="lower left", fontsize=9, frameon=False)
    return figure


def main():
    runs, folder = read_arguments(__doc__, "adapters --suite throughput-by-adapters")
    save({"readme-throughput": draw(runs)}, folder)


if __name__ == "__main__":
    main()
