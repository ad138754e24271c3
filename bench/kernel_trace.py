#!/usr/bin/env python3
"""Reads what bench/kernel_trace.cc wrote: steps of the same kernels side by side, or the layers of some.

  bench/kernel_trace.py TRACE             a line for each kind of step, with its number
  bench/kernel_trace.py TRACE --kind N    a layer of these, averaged: when its kernels begin and end, from its norm on
                        [--ms LOW HIGH]   only of steps that took so long: those of several mixes of adapters launch the
                                          same kernels

TRACE may be compressed (.xz).
"""

import argparse
import collections
import lzma
import re
import statistics

FIRST_LAYER, LAST_LAYER = 2, -2  # what comes in front of and behind the others is another kernel
KERNELS_OF_A_STEP = 200

Kernel = collections.namedtuple("Kernel", "name begin_us end_us blocks")


def short_name(mangled):
    """The class of kernel; of the GEMM its tile, too: groups/width/boxes/blocks, s: swapped, l: with LoRA."""
    if "rms_norm" in mangled or "rms_n" in mangled:
        return "Norm"
    if "mbedding" in mangled:
        return "Embedding"
    shape = re.search(r"HopperGemm\w*Li(\d+)ELi(\d+)ELi(\d+)ELi(\d+)ELb(\d)ELb(\d)ELb(\d)ELb(\d)", mangled)
    if shape:
        marks = ("s" if shape[6] == "1" else "") + ("l" if shape[8] == "1" else "")
        return "Gemm " + "/".join(shape.groups()[:4]) + marks
    found = re.search(r"([A-Z][A-Za-z]*)Kernel", mangled)
    return found[1] if found else mangled[:40]


def read(path):
    names, kernels = {}, []
    with (lzma.open if path.endswith(".xz") else open)(path, "rt") as file:
        for line in file:
            if line.startswith("#"):
                idx, name = line[1:].split(" ", 1)
                names[idx] = short_name(name.strip())
            else:
                idx, begin, end, blocks = line.split()[:4]
                kernels.append(Kernel(names[idx], int(begin) / 1e3, int(end) / 1e3, int(blocks)))
    return kernels


def steps_by_kind(kernels):
    """Steps, from one embedding of tokens to the next, under the names and sizes of their kernels; frequent ones first."""
    borders = [i for i, kernel in enumerate(kernels) if kernel.name == "Embedding"] + [len(kernels)]
    kinds = collections.defaultdict(list)
    for begin, end in zip(borders, borders[1:]):
        if end - begin >= KERNELS_OF_A_STEP:
            step = kernels[begin:end]
            kinds[tuple((kernel.name, kernel.blocks) for kernel in step)].append(step)
    return sorted(kinds.values(), key=len, reverse=True)


def duration_ms(step):
    return (step[-1].end_us - step[0].begin_us) / 1e3


def print_layer(steps):
    norms = [i for i, kernel in enumerate(steps[0]) if kernel.name == "Norm"]
    layers = norms[0:-1:2]  # two norms a layer, and the last
    length = layers[FIRST_LAYER + 1] - layers[FIRST_LAYER]
    times = [[] for _ in range(length)]
    for step in steps:
        for first in layers[FIRST_LAYER:LAST_LAYER]:
            for place, of_place in enumerate(times):
                kernel, before = step[first + place], step[first + place - 1]
                begin = step[first].begin_us
                of_place.append((kernel.begin_us - begin, kernel.end_us - begin, kernel.end_us - before.end_us))
    print(f"{'kernel':24} {'blocks':>6} {'begin':>8} {'end':>8} {'after the end in front':>24}  us")
    for place, of_place in enumerate(times):
        kernel = steps[0][layers[FIRST_LAYER] + place]
        begin, end, later = (statistics.mean(column) for column in zip(*of_place))
        print(f"{kernel.name:24} {kernel.blocks:6} {begin:8.1f} {end:8.1f} {later:24.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("--kind", type=int)
    parser.add_argument("--ms", type=float, nargs=2, default=(0, float("inf")), metavar=("LOW", "HIGH"))
    options = parser.parse_args()
    kinds = steps_by_kind(read(options.trace))
    if options.kind is not None:
        print_layer([step for step in kinds[options.kind] if options.ms[0] <= duration_ms(step) <= options.ms[1]])
        return
    for idx, steps in enumerate(kinds):
        times = [duration_ms(step) for step in steps]
        print(f"{idx:3}: {len(steps):4} steps of {len(steps[0])} kernels, {min(times):.3f} to {max(times):.3f} ms: "
              + ", ".join(kernel.name for kernel in steps[0][1:14]) + ", ...")


if __name__ == "__main__":
    main()
