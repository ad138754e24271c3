#!/usr/bin/env python3
"""build_report.py BUILD_DIR [N]: what took longest in a build folder, by ninja's own log: the slowest files and
programs, and the sum over all. Seconds are the clock's, so that those of a busy machine are longer."""

import os
import sys


def read_log(path):
    """Of each output, seconds of its last build. Outputs of one command count once."""
    seconds = {}
    with open(path) as file:
        if not file.readline().startswith("# ninja log v"):
            sys.exit(f"{path} is no log of ninja's")
        for line in file:
            begin, end, _, output, command = line.rstrip("\n").split("\t")
            seconds[command] = ((int(end) - int(begin)) / 1000, output)
    return sorted(seconds.values(), reverse=True)


def main():
    folder = sys.argv[1]
    path = os.path.join(folder, ".ninja_log")
    if not os.path.exists(path):
        sys.exit(f"{path} is missing: nothing was built in {folder}")
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 25
    steps = read_log(path)
    print(f"{folder}: {len(steps)} steps, {sum(step[0] for step in steps):.0f} s in all; the slowest:")
    for seconds, output in steps[:count]:
        print(f"{seconds:8.1f} s  {output}")


if __name__ == "__main__":
    main()
