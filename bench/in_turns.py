#!/usr/bin/env python3
"""in_turns.py OLD NEW [--rounds N] -- ARGUMENTS: two builds of graft-bench, in turns, with the same arguments.

Prints every figure of their JSON that is a time or a rate, old, new and new over old, by the median of the rounds. Ratios
of one run count, whatever else differs between machines and days: docs/benchmarks.md.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

MEASURED = ("_ms", "_us", "_ns", "_seconds", "per_second", "gbytes_per_s", "gflops")


def figures(value, path=""):
    """Path to number, for all that was measured; rows of a table are named by their words."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield from figures(below, f"{path} {key}".strip())
    elif isinstance(value, list):
        for index, below in enumerate(value):
            words = [word for word in below.values() if isinstance(word, str)] if isinstance(below, dict) else []
            yield from figures(below, f"{path} {', '.join(words) or index}".strip())
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and path.endswith(MEASURED):
        yield path, float(value)


def measure(program, arguments, folder):
    target = os.path.join(folder, "row.json")
    done = subprocess.run([program, *arguments, "--json", target], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    if done.returncode != 0:
        sys.exit(f"{program} ended with {done.returncode}:\n{done.stdout[-2000:]}")
    with open(target) as file:
        return dict(figures(json.load(file)))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("arguments", nargs="+")
    args = parser.parse_args()
    rows = {args.old: [], args.new: []}
    if len(rows) == 1:
        sys.exit("name two programs: a copy or a link will do where they are to be the same")
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(args.rounds):
            for program in (args.old, args.new) if turn % 2 == 0 else (args.new, args.old):
                rows[program].append(measure(program, args.arguments, folder))
                print(f"round {turn + 1}: {program}", file=sys.stderr, flush=True)
    both = [name for name in rows[args.old][0] if all(name in row for of_one in rows.values() for row in of_one)]
    if not both:
        sys.exit("the two programs' JSON has no figure in common")
    width = max(map(len, both))
    print(f"{'':{width}} {'old':>12} {'new':>12} {'new / old':>10}  rounds apart by")
    for name in both:
        old, new = ([row[name] for row in rows[program]] for program in (args.old, args.new))
        if not all(old + new):
            continue
        apart = max(max(of_one) / min(of_one) for of_one in (old, new)) - 1
        old, new = statistics.median(old), statistics.median(new)
        print(f"{name:{width}} {old:12.4g} {new:12.4g} {new / old:10.3f}  {100 * apart:.1f} %")


if __name__ == "__main__":
    main()
