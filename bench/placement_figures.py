#!/usr/bin/env python3
"""Runs `graft simulate` over the placements that Graft has, and prints and draws how they compare: CaraServe's Figures
19 and 20 (60 runners and 40,000 adapters, 8 runners and 1,200 requests) by the paper's costs and by ours, a hot spot
with a long tail, and runners that fail. All placements serve the same requests, seed by seed.

  bench/placement_figures.py --graft build/release/graft --traces DIR --seeds 20 --work build/placement

DIR has azure_functions_2019_1250.csv and alibaba_genai_lora_load_latency.csv, unpacked. What --work holds already is
not run again. Needs matplotlib (pip install matplotlib), nothing else of the project does.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
from concurrent.futures import ThreadPoolExecutor

from plotting import COLORS, GRID, pyplot, save

AUTO = "auto"
PLACEMENTS = ["most-idle", "punica", "first-fit", "random", "rendezvous", "min-cost-flow", "caraserve", AUTO]
LOADS = [0.6, 0.8, 0.95]
# Of Student's t, two-sided, by degrees of freedom.
T_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 14: 2.145, 19: 2.093}


def costs_of_paper(pads, base_ms, ms_per_unit):
    """Through the two points of CaraServe's Figure 5. A prompt's time is no part of it: 0.2 ms a token is what
    Llama-2-7B's 13.5 GFLOP take at 54 % of an A10's 125 TFLOP/s. Loads are those of our file."""
    line = {"base_ms": base_ms, "ms_per_unit": ms_per_unit, "r_squared": 1.0}
    return {"pads": pads, "decode": line, "prompt": {"base_ms": base_ms, "ms_per_unit": 0.2, "r_squared": 1.0},
            "step": {"base_ms": base_ms, "ms_per_row": 0.0, "ms_per_unit": ms_per_unit, "ms_per_prompt_token": 0.2,
                     "ms_per_context_token": 0.0, "r_squared": 1.0},
            "load": {"base_ms": 1.0, "ms_per_rank": 0.1, "fetch_ms": 0.0}}


# 24 requests of rank 32, 16 of rank 64: 35.3 and 35.9 ms where ranks are summed, 34.8 and 35.8 where they are padded.
COSTS = {"summed": costs_of_paper(False, 33.5, 0.6 / 256),
         "padded": costs_of_paper(True, 31.8, 1.0 / 256), "ours": None}
COST_NAMES = {"summed": "CaraServe's costs, summed ranks", "padded": "CaraServe's costs, padded ranks",
              "ours": "ours, Llama-2-7B on an H200"}


def cluster_options(costs, load, requests, work, traces):
    options = ["--popularity", os.path.join(traces, "azure_functions_2019_1250.csv"), "--load", load, "--requests",
               requests]
    if COSTS[costs] is not None:
        path = os.path.join(work, f"costs-{costs}.json")
        with open(path, "w") as file:
            json.dump(COSTS[costs], file)
        options += ["--costs", path]
    return options


def scenarios(args):
    """Name -> options of graft simulate."""
    found = {}
    for costs in COSTS:
        warm = 3 if costs == "ours" else 20
        for load in LOADS:
            found[f"fig19-{costs}-{load}"] = cluster_options(costs, load, args.requests, args.work, args.traces) + [
                "--runners", 60, "--adapters", 40000, "--warm-seconds", warm]
        found[f"fig20-{costs}"] = cluster_options(costs, 0.8, 1200, args.work, args.traces) + [
            "--runners", 8, "--adapters", 1250]
    found["hot-spot"] = [
        "--runners", 16, "--adapters", 1000, "--adapters-max", 8, "--host-adapters", 8, "--zipf", 1, "--load", 0.8,
        "--load-of", "places", "--fetch-times", os.path.join(args.traces, "alibaba_genai_lora_load_latency.csv"),
        "--requests", 8000, "--warm-seconds", 60]
    found["failures"] = cluster_options("ours", 0.8, args.requests, args.work, args.traces) + [
        "--runners", 60, "--adapters", 40000, "--warm-seconds", 3, "--frontends", 4, "--view-ms", 100,
        "--fail-seconds", 1, "--down-seconds", 2, "--slowness", 2, "--slow-seconds", 4]
    return {name: options for name, options in found.items() if not args.only or name.startswith(args.only)}


def run(name, options, args):
    path = os.path.join(args.work, name + ".json")
    if not os.path.exists(path):
        command = [args.graft, "simulate", "--quiet", "--seeds", args.seeds, "--json", path + ".part", "--placement",
                   ",".join(args.placements)] + options
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
        os.rename(path + ".part", path)
    with open(path) as file:
        return json.load(file)["runs"]


class Figures:
    """One scenario's figures by placement, each a list by seed."""

    METRICS = {"token_ms": lambda one: one["token_ms"]["mean"],
               "slo": lambda one: one["slo_attainment"],
               "first_p50": lambda one: one["first_token_ms"]["p50"],
               "first_p99": lambda one: one["first_token_ms"]["p99"],
               "loads": lambda one: one["adapter_copies_a_request"],
               "bound_p99": lambda one: one["bound"]["first_token_p99_ms"]}

    def __init__(self, runs):
        self.of = {}
        for one in sorted(runs, key=lambda one: one["seed"]):
            mine = self.of.setdefault(one["placement"], {metric: [] for metric in self.METRICS})
            for metric, value in self.METRICS.items():
                mine[metric].append(value(one))

    def mean(self, placement, metric):
        return statistics.fmean(self.of[placement][metric])

    def interval(self, placement, metric):
        return interval_of(self.of[placement][metric])

    def gain(self, placement, metric):
        """By how many percent auto is better than the other, the 95 % interval's half, and the worst seed."""
        sign = 1.0 if metric == "slo" else -1.0
        pairs = zip(self.of[AUTO][metric], self.of[placement][metric])
        gains = [sign * 100.0 * (mine - other) / other if other else 0.0 for mine, other in pairs]
        return statistics.fmean(gains), interval_of(gains), min(gains)


def interval_of(values):
    if len(values) < 2:
        return 0.0
    freedom = max(known for known in T_95 if known < len(values))
    return T_95[freedom] * statistics.stdev(values) / math.sqrt(len(values))


def print_table(name, figures):
    print(f"\n{name}\n{'placement':14s} {'token ms':>16s} {'within bound':>16s} {'first P50':>10s} {'first P99':>20s} "
          f"{'loads':>7s}   auto better by (worst seed), token ms and bound")
    for placement in figures.of:
        mean = lambda metric: figures.mean(placement, metric)
        gains = ""
        if placement != AUTO and AUTO in figures.of:
            gains = "  ".join("{:+6.2f} +- {:.2f} ({:+.2f}) %".format(*figures.gain(placement, metric))
                              for metric in ("token_ms", "slo"))
        print(f"{placement:14s} {mean('token_ms'):8.3f} +- {figures.interval(placement, 'token_ms'):5.3f} "
              f"{mean('slo'):8.4f} +- {figures.interval(placement, 'slo'):6.4f} {mean('first_p50'):9.1f} "
              f"{mean('first_p99'):10.1f} +- {figures.interval(placement, 'first_p99'):6.1f} "
              f"{mean('loads'):7.3f}   {gains}")
    bound = figures.mean(next(iter(figures.of)), "bound_p99")
    if bound > 0:
        print(f"{'clairvoyant':14s} {'':16s} {'':20s} {bound:29.1f}")


def bars(axis, figures_by_group, metric, label):
    """Groups of bars, one of each placement in a group."""
    placements = list(next(iter(figures_by_group.values())).of)
    width = 0.8 / len(placements)
    for index, placement in enumerate(placements):
        xs = [group + (index - len(placements) / 2 + 0.5) * width for group in range(len(figures_by_group))]
        means = [figures.mean(placement, metric) for figures in figures_by_group.values()]
        errors = [figures.interval(placement, metric) for figures in figures_by_group.values()]
        axis.bar(xs, means, width, yerr=errors, color=COLORS[index % len(COLORS)], label=placement,
                 error_kw={"linewidth": 0.8})
    axis.set_xticks(range(len(figures_by_group)), list(figures_by_group))
    axis.set_ylabel(label)
    axis.grid(axis="y", **GRID)
    axis.set_axisbelow(True)


def draw_figure_19(results):
    figure, axes = pyplot.subplots(2, 3, figsize=(13, 6.4), layout="constrained")
    for column, costs in enumerate(COSTS):
        groups = {f"load {load}": results[f"fig19-{costs}-{load}"] for load in LOADS}
        axes[0][column].set_title(COST_NAMES[costs], fontsize=10)
        bars(axes[0][column], groups, "token_ms", "mean time per token (ms)")
        axes[0][column].set_ylim(bottom=0.8 * min(one.mean(AUTO, "token_ms") for one in groups.values()))
        bars(axes[1][column], groups, "slo", "requests within the bound")
        axes[1][column].set_ylim(0, 1.02)
    axes[1][0].legend(fontsize=8, frameon=False, ncol=2, loc="lower left")
    figure.suptitle("Simulated: 60 runners, 40,000 adapters by the law of Azure's functions (CaraServe's Figure 19)",
                    fontsize=11)
    return figure


def draw_figure_20(results):
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    groups = {COST_NAMES[costs].replace(", ", ",\n"): results[f"fig20-{costs}"] for costs in COSTS}
    bars(axes[0], groups, "token_ms", "mean time per token (ms)")
    bars(axes[1], groups, "slo", "requests within the bound")
    axes[1].set_ylim(0, 1.02)
    axes[1].legend(fontsize=7, frameon=True, ncol=2, loc="lower left")
    figure.suptitle("Simulated: 8 runners, 1,200 requests, load 0.8 (CaraServe's Figure 20)", fontsize=11)
    return figure


def draw_hot_spot(figures):
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
    bars(axes[0], {"": figures}, "first_p99", "first token, P99 (ms)")
    bars(axes[1], {"": figures}, "loads", "loads per request")
    axes[0].axhline(figures.mean(AUTO, "bound_p99"), color="#333333", linestyle=":", linewidth=1.2,
                    label="clairvoyant bound")
    axes[0].set_yscale("log")
    axes[0].legend(fontsize=7, frameon=True, ncol=2)
    figure.suptitle("Simulated: 16 runners with 8 places, 1,000 adapters by Zipf's law, loads of Alibaba's trace",
                    fontsize=11)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graft", default="build/release/graft", help="the program")
    parser.add_argument("--traces", required=True, help="folder of the traces, unpacked")
    parser.add_argument("--work", default="build/placement", help="folder for what graft simulate writes")
    parser.add_argument("--out", default="docs/plots", help="folder for the figures")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--requests", type=int, default=5000, help="of a run; Figure 20 has 1,200, the hot spot 8,000")
    parser.add_argument("--placements", nargs="+", default=PLACEMENTS)
    parser.add_argument("--only", default="", help="scenarios whose names begin so")
    parser.add_argument("--jobs", type=int, default=1, help="simulations at once")
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    names = scenarios(args)
    with ThreadPoolExecutor(args.jobs) as pool:
        runs = pool.map(lambda name: run(name, names[name], args), names)
    results = {name: Figures(one) for name, one in zip(names, runs)}
    for name, figures in results.items():
        print_table(name, figures)
    drawn = {}
    if all(f"fig19-{costs}-{load}" in results for costs in COSTS for load in LOADS):
        drawn["placement-fig19"] = draw_figure_19(results)
    if all(f"fig20-{costs}" in results for costs in COSTS):
        drawn["placement-fig20"] = draw_figure_20(results)
    if "hot-spot" in results:
        drawn["placement-hot-spot"] = draw_hot_spot(results["hot-spot"])
    save(drawn, args.out)


if __name__ == "__main__":
    main()
