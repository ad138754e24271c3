#!/usr/bin/env python3
"""Draws README's first picture, Graft beside vLLM over HTTP, from the rows that bench/beside_vllm.sh left.

  bench/plot_beside_vllm.py bench/results/beside-vllm-h200.jsonl
"""

import argparse
import json
import pathlib

from beside_vllm import best
from plotting import COLORS, GRID, pyplot, save

# (part, load) of a row, and what the picture calls it.
SHOWN = {("base", "closed 32"): "base,\n32 at once", ("base", "closed 256"): "base,\n256 at once",
         ("many", "closed 32"): "100 adapters,\n32 at once", ("many", "closed 256"): "100 adapters,\n256 at once",
         ("first", "first use"): "first use of\n100 adapters"}
SERVERS = {"graft": "Graft", "vllm": "vLLM 0.25.1, the better of its settings"}


def cells(rows, server):
    """The best row of each load that is shown."""
    return [best([row for row in rows if row["server"] == server and (row["part"], row["load"]) == key])
            for key in SHOWN]


def panel(axis, rows, value, title, digits):
    for index, server in enumerate(SERVERS):
        values = [value(row) for row in cells(rows, server)]
        at = [i + (index - 0.5) * 0.38 for i in range(len(values))]
        axis.bar(at, values, width=0.36, color=COLORS[index], label=SERVERS[server])
        for x, y in zip(at, values):
            axis.annotate(f"{y:,.{digits}f}", (x, y), ha="center", va="bottom", fontsize=7)
    axis.set_xticks(range(len(SHOWN)), SHOWN.values(), fontsize=7.5)
    axis.set_title(title, fontsize=9)
    axis.grid(axis="y", **GRID)
    axis.set_axisbelow(True)


def draw(rows):
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 3.6), constrained_layout=True)
    panel(left, rows, lambda row: row["tokens_per_second"], "answers, tokens/s", 0)
    panel(right, rows, lambda row: row["first_token_ms"]["p99"] / 1000, "first token, 99 of 100 within so many s", 2)
    right.set_yscale("log")
    left.legend(loc="upper right", fontsize=8, frameon=False)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=pathlib.Path, nargs="+")
    parser.add_argument("--out", default="docs/plots", help="folder for the figure")
    args = parser.parse_args()
    save({"beside-vllm": draw([json.loads(line) for path in args.files for line in path.read_text().splitlines()])}, args.out)


if __name__ == "__main__":
    main()
