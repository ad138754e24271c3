#!/usr/bin/env python3
"""The lengths that `graft-bench serve --lengths` draws ShareGPT's conversations from.

  bench/sharegpt_lengths.py sharegpt_lengths.csv.gz lengths.csv

Reads a CSV (or .csv.gz) of prompt and answer tokens per turn, such as sarathi-serve publishes, and keeps what
vLLM's serving benchmark keeps, and those after it: prompts of 4 to 1,024 tokens, at least 4 tokens of answer, at
most 2,048 together.
"""

import argparse
import csv
import gzip

PROMPT_MIN, PROMPT_MAX, OUTPUT_MIN, TOTAL_MAX = 4, 1024, 4, 2048
PROMPT_NAMES = ["prompt", "input", "prefill"]
OUTPUT_NAMES = ["output", "response", "decode"]


def column(header, names):
    for index, title in enumerate(header):
        if any(name in title.lower() for name in names) and "ratio" not in title:
            return index
    raise SystemExit(f"no column of {' or '.join(names)} in {','.join(header)}")


def is_kept(prompt, output):
    return PROMPT_MIN <= prompt <= PROMPT_MAX and output >= OUTPUT_MIN and prompt + output <= TOTAL_MAX


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", help="CSV of tokens per turn, or .csv.gz")
    parser.add_argument("target", help="CSV to write")
    args = parser.parse_args()
    opener = gzip.open if args.source.endswith(".gz") else open
    with opener(args.source, "rt", newline="") as file:
        rows = csv.reader(file)
        header = next(rows)
        prompt, output = column(header, PROMPT_NAMES), column(header, OUTPUT_NAMES)
        lengths = [(int(row[prompt]), int(row[output])) for row in rows]
    kept = [pair for pair in lengths if is_kept(*pair)]
    if not kept:
        raise SystemExit("nothing is kept")
    with open(args.target, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["prompt_tokens", "output_tokens"])
        writer.writerows(kept)
    prompts, outputs = (sum(side) / len(kept) for side in zip(*kept))
    print(f"{len(kept)} of {len(lengths)} turns: {prompts:.0f} + {outputs:.0f} tokens on average")


if __name__ == "__main__":
    main()
