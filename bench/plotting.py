"""What the figures of plot_adapters.py and plot_punica.py have in common. Needs matplotlib (pip install matplotlib),
nothing else of the project does."""

import argparse
import json
import os

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402, F401

COLORS = ["#0b6e99", "#c8553d", "#5b8c3a", "#7a4e9f", "#b58900", "#555555", "#d081b8", "#3aa6a0"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
GRID = {"which": "major", "color": "#dddddd", "linewidth": 0.6}


def device_of(run):
    """"NVIDIA H200, compute capability 9.0, 139 GiB": the name alone."""
    machine = run["machine"]
    return run.get("device", machine.get("device", machine["processor"])).split(",")[0]


def shape_of(run):
    return os.path.splitext(os.path.basename(run["shape"]))[0]


def kernel_of(run):
    """Of its LoRA products; an earlier Graft had more of them, by another name."""
    return "after" if run.get("lora") == "after" else run.get("lora_kernel", "segmented")


def line(axis, index, xs, ys, label):
    rounds, index = divmod(index, len(COLORS))  # a second round is dashed
    axis.plot(xs, ys, "-" if rounds == 0 else "--", color=COLORS[index], marker=MARKERS[index], markersize=4,
              linewidth=1.4, label=label)


def read_arguments(doc, what):
    """What the files named on the command line hold, and the folder for the figures."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("json", nargs="+", help=f"what graft-bench {what} --json wrote")
    parser.add_argument("--out", default="docs/plots", help="folder for the figures")
    args = parser.parse_args()
    runs = []
    for path in args.json:
        with open(path) as file:
            runs.append(json.load(file))
    return runs, args.out


def save(figures, folder):
    """Each figure as a PNG of its name."""
    os.makedirs(folder, exist_ok=True)
    for name, figure in figures.items():
        path = os.path.join(folder, name + ".png")
        figure.savefig(path, dpi=110)
        print(path)
