#!/usr/bin/env python3
"""The loads of bench/beside_vllm.sh and the table of what two servers made of them.

  bench/beside_vllm.py drive URL --server graft --parts "base" --rows rows.jsonl [--setting max_loras=32]
  bench/beside_vllm.py adapters --parts "many"        how many the parts need
  bench/beside_vllm.py table rows.jsonl ...

`drive` asks a running server whose base model is `base` and whose adapters are a0, a1, ...; it appends one JSON row a
load. Prompts are random token ids that depend on the load alone: each server gets the same ones in the same order, and no
two loads share any. Before a part, requests of other prompts warm the server up; they are in no row. `table` joins rows
of any number of runs. Of a load that ran again the last row counts; of one server's settings, the one with most tokens a
second.
"""

import argparse
import csv
import dataclasses
import json
import pathlib
import random
import sys
import time
import urllib.request

from http_load import Ask, Load, figures, run_load

TOKEN_FIRST = 300  # above the special tokens of any vocabulary
CLOSED = [1, 32, 128, 256]
CLOSED_REQUESTS = {1: 8, 32: 256, 128: 640, 256: 1024}
POISSON_SECONDS, POISSON_SHARE = 45, 0.8
PREFIX, TURN, TURNS = 512, 64, 4  # tokens of a conversation's beginning, of each question and answer; turns


@dataclasses.dataclass
class Part:
    """Which model a request asks: one of so many adapters, drawn with weights 1/rank, or the base model (0). `every`:
    the warm-up asks each adapter once, so that none is read in a load. `in_turn`: request i asks adapter i, not one that
    is drawn. `alone`: further adapters, of the load that asks them one after the other."""
    adapters: int
    loads: list
    every: bool = True
    in_turn: bool = False
    alone: int = 0


FEW = [f"closed {at_once}" for at_once in CLOSED] + ["poisson"]
MORE = ["lengths", "conversations", "burst"]
PARTS = {"base": Part(0, FEW), "base-more": Part(0, MORE), "one": Part(1, FEW),
         "first": Part(100, ["first use", "first use alone"], every=False, in_turn=True, alone=20),
         "many": Part(100, FEW), "many-more": Part(100, MORE), "one-burst": Part(1, ["burst"]),
         "each-burst": Part(128, ["burst"], in_turn=True),
         "thousand": Part(1000, ["closed 256", "poisson"], every=False)}
PLAIN = [name for name, part in PARTS.items() if part.adapters == 0]


def scaled(number, scale):
    return max(1, round(number * scale))


class Loads:
    """Makes the loads of one part, every number of requests, tokens and adapters times `scale`."""

    def __init__(self, name, options):
        self.name, self.part, self.options = name, PARTS[name], options
        self.adapters = self.scaled(self.part.adapters) if self.part.adapters else 0
        self.vocab = options.vocab

    def scaled(self, number):
        return scaled(number, self.options.scale)

    def model(self, draw, number):
        if self.adapters == 0:
            return "base"
        if self.part.in_turn:
            return f"a{number % self.adapters}"
        return f"a{draw.choices(range(self.adapters), [1 / (i + 1) for i in range(self.adapters)])[0]}"

    def tokens(self, draw, count):
        return draw.choices(range(TOKEN_FIRST, self.vocab), k=count)

    def plain(self, seed, count, prompt, output):
        """`count` chains of one request each."""
        draw = random.Random(f"{self.name} {seed}")
        prompt, output = self.scaled(prompt), max(2, self.scaled(output))
        return [[Ask(self.model(draw, i), self.tokens(draw, prompt), output)] for i in range(count)]

    def warm_up(self):
        """Every shape of step that a load may meet, and the adapters."""
        draw = random.Random(f"{self.name} warm-up")
        load = [Load(self.plain("warm-up", at_once, 300, 20), at_once) for at_once in map(self.scaled, CLOSED)]
        if self.part.alone:
            for chain in [chain for one in load for chain in one.chains]:
                chain[0].model = "base"
        elif self.adapters and self.part.every:
            names = [f"a{i}" for i in range(self.adapters)]
            load.insert(0, Load([[Ask(name, self.tokens(draw, 16), 2)] for name in names], at_once=16))
        return load

    def lengths(self):
        """Prompts and answers as long as ShareGPT's turns."""
        draw = random.Random("lengths")
        with open(self.options.lengths, newline="") as file:
            pairs = [(int(row["prompt_tokens"]), int(row["output_tokens"])) for row in csv.DictReader(file)]
        chains = []
        for i, (prompt, output) in enumerate(draw.choices(pairs, k=self.scaled(768))):
            chains.append([Ask(self.model(draw, i), self.tokens(draw, self.scaled(prompt)), max(2, self.scaled(output)))])
        return chains

    def conversations(self):
        """All conversations with one model begin alike; each turn's prompt holds all before it. The answers in it are made
        up, so that both servers get the same prompts."""
        prefixes, chains = {}, []
        for number in range(self.scaled(192)):
            draw = random.Random(f"{self.name} conversation {number}")
            model = self.model(draw, number)
            if model not in prefixes:
                prefixes[model] = self.tokens(random.Random(f"{self.name} prefix {model}"), self.scaled(PREFIX))
            text, chain = prefixes[model], []
            for _ in range(TURNS):
                text = text + self.tokens(draw, self.scaled(TURN))
                chain.append(Ask(model, text, max(2, self.scaled(TURN))))
                text = text + self.tokens(draw, self.scaled(TURN))
            chains.append(chain)
        return chains

    def first_use_alone(self):
        chains = self.plain("first use alone", self.scaled(self.part.alone), 300, 40)
        for number, chain in enumerate(chains):
            chain[0].model = f"a{self.adapters + number}"
        return chains

    def poisson(self, rate):
        draw = random.Random(f"{self.name} arrivals")
        chains = self.plain("poisson", max(4, round(rate * POISSON_SECONDS * min(1, self.options.scale))), 300, 200)
        begins, now = [], 0.0
        for _ in chains:
            now += draw.expovariate(rate)
            begins.append(now)
        return chains, begins

    def make(self, name, rows):
        """The load's rounds, and what its row says besides; None where it cannot be made."""
        seconds = self.options.seconds_max
        kind, _, number = name.partition(" ")
        if kind == "closed":
            at_once, count = self.scaled(int(number)), self.scaled(CLOSED_REQUESTS[int(number)])
            return [Load(self.plain(name, count, 300, 200), at_once, seconds_max=seconds)], {"at_once": at_once}
        if kind == "poisson":
            rate = POISSON_SHARE * saturation(rows) / max(2, self.scaled(200))
            chains, begins = self.poisson(rate)
            return [Load(chains, begins=begins, seconds_max=max(seconds, 2 * begins[-1]))], {"rate": rate}
        if kind == "lengths":
            if not self.options.lengths:
                return None
            return [Load(self.lengths(), self.scaled(256), seconds_max=seconds)], {"at_once": self.scaled(256)}
        if kind == "conversations":
            return [Load(self.conversations(), self.scaled(64), seconds_max=seconds)], {"at_once": self.scaled(64)}
        if kind == "burst":
            count = self.scaled(128)
            return [Load(self.plain(f"burst {i}", count, 512, 128), count, seconds_max=seconds) for i in range(3)], \
                {"at_once": count}
        if name == "first use alone":
            return [Load(self.first_use_alone(), 1, seconds_max=seconds)], {"at_once": 1}
        assert name == "first use", name
        chains = self.plain(name, self.scaled(256), 300, 40)
        return [Load(chains, self.scaled(256), seconds_max=seconds)], {"at_once": self.scaled(256)}


def saturation(rows):
    """Tokens a second of the closed loop that has most."""
    return max(row["tokens_per_second"] for row in rows if row["load"].startswith("closed"))


def wait_ready(url, pid, seconds_max):
    """Seconds until the base model answers a request; an error where the process `pid` ends before."""
    body = json.dumps({"model": "base", "prompt": [TOKEN_FIRST], "max_tokens": 1}).encode()
    begin = time.monotonic()
    while time.monotonic() - begin < seconds_max:
        try:
            request = urllib.request.Request(url + "/v1/completions", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=120) as reply:
                json.load(reply)
                return time.monotonic() - begin
        except OSError:
            if pid and not pathlib.Path(f"/proc/{pid}").exists():
                break
        time.sleep(0.1)
    raise SystemExit(f"{url} did not answer")


def settings_of(pairs):
    return dict(pair.split("=", 1) for pair in pairs)


def write_row(options, row):
    row = {"server": options.server, **settings_of(options.setting), **row, "scale": options.scale}
    with open(options.rows, "a") as file:
        file.write(json.dumps(row) + "\n")
    print(json.dumps(row), flush=True)


def drive_part(name, options):
    loads, rows = Loads(name, options), []
    if options.ready:
        write_row(options, {"part": name, "load": "start", "ready_seconds": options.ready})
        options.ready = None
    for load in loads.warm_up():
        failed = [one.error for one in run_load(options.url, load, options.processes)[0] if one.error]
        if failed:
            raise SystemExit(f"{options.server} fails in {name}'s warm-up: {failed[0]}")
    for load_name in loads.part.loads:
        made = loads.make(load_name, rows)
        if made is None:
            print(f"{load_name} is left out: it needs --lengths", file=sys.stderr)
            continue
        rounds, says = made
        heard, busiest = [], 0.0
        for load in rounds:
            one, busy = run_load(options.url, load, options.processes)
            heard.append(one)
            busiest = max(busiest, busy)
        rows.append({"part": name, "load": load_name, "adapters": loads.adapters, **says, **figures(heard),
                     "client_busiest": busiest})
        write_row(options, rows[-1])


def drive(options):
    parts = parts_of(options.parts)
    options.ready = wait_ready(options.url, options.pid, options.ready_seconds)
    for name in parts:
        drive_part(name, options)


def number(value, digits=0):
    return "" if value is None else f"{value:,.{digits}f}"


def cell(row):
    if row is None:
        return ""
    if row["load"] == "start":
        return f"{row['ready_seconds']:.1f} s"
    first, gap = row["first_token_ms"], row["token_ms"]
    bad = [f"**{row[what]} {what}**" for what in ("errors", "cut") if row[what]]
    rate = [f"{row['rate']:.1f} requests/s"] if "rate" in row else []
    return "; ".join([*rate, number(row["tokens_per_second"]), f"{number(first['p50'])} / {number(first['p99'])}",
                      f"{number(gap['p50'], 1)} / {number(gap['p99'], 1)}", *bad])


def best(rows):
    """Most tokens a second."""
    return max(rows, key=lambda row: row.get("tokens_per_second", 0), default=None)


def setting_of(row):
    return "" if row is None else f"{row['max_loras']}" if "max_loras" in row else ""


def ratio(row, other, key):
    return "" if row is None or other is None or not other.get(key) else f"{row[key] / other[key]:.2f}"


def table(options):
    rows = [json.loads(line) for path in options.files for line in path.read_text().splitlines()]
    rows = list({(row["server"], row["part"], row["load"], row.get("max_loras")): row for row in rows}.values())
    lines = ["Each cell: tokens/s; first token P50 / P99 ms; time per token P50 / P99 ms.", "",
             "| part | load | Graft | vLLM | vLLM's max_loras | tokens/s, ratio | cached prompt tokens |", "|---|---|---|---|---|---|---|"]
    seen = dict.fromkeys((row["part"], row["load"]) for row in rows)
    for part in PARTS:
        for load in [load for name, load in seen if name == part]:
            graft, vllm = (best([row for row in rows if (row["part"], row["load"], row["server"]) == (part, load, server)])
                           for server in ("graft", "vllm"))
            cached = " / ".join("-" if row is None or load == "start" else f"{row['cached_share']:.0%}" for row in (graft, vllm))
            lines.append(f"| {part} | {load} | {cell(graft)} | {cell(vllm)} | {setting_of(vllm)} | "
                         f"{ratio(graft, vllm, 'tokens_per_second')} | {cached} |")
    busy = max((row["client_busiest"] for row in rows if "client_busiest" in row), default=0)
    lines += ["", f"The busiest process of the client took {busy:.0%} of a core."]
    if any(row["scale"] != 1 for row in rows):
        lines.append("**Scaled down: no measurement.**")
    print("\n".join(lines))


def parts_of(words):
    unknown = [name for name in words.split() if name not in PARTS]
    if unknown:
        raise SystemExit(f"no part {unknown[0]}; parts are {', '.join(PARTS)}")
    return words.split()


def print_adapters(options):
    counts = [scaled(part.adapters, options.scale) + scaled(part.alone, options.scale)
              for part in (PARTS[name] for name in parts_of(options.parts)) if part.adapters]
    print(max(counts, default=0))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    driving = commands.add_parser("drive")
    driving.add_argument("url")
    driving.add_argument("--server", choices=["graft", "vllm"], required=True)
    driving.add_argument("--rows", required=True)
    driving.add_argument("--setting", action="append", default=[], help="NAME=VALUE of the server, for the rows")
    driving.add_argument("--vocab", type=int, required=True)
    driving.add_argument("--lengths", help="CSV of bench/sharegpt_lengths.py")
    driving.add_argument("--seconds-max", type=float, default=100, help="of a load; what runs then is cut")
    driving.add_argument("--processes", type=int, default=4, help="of the client")
    driving.add_argument("--pid", type=int, help="the server's")
    driving.add_argument("--ready-seconds", type=float, default=420)
    counting = commands.add_parser("adapters")
    for command in (driving, counting):
        command.add_argument("--parts", required=True, help=", ".join(PARTS))
        command.add_argument("--scale", type=float, default=1, help="of all numbers of requests and tokens, for a try")
    joining = commands.add_parser("table")
    joining.add_argument("files", type=pathlib.Path, nargs="+")
    return parser.parse_args()


def main():
    options = parse()
    {"drive": drive, "adapters": print_adapters, "table": table}[options.command](options)


if __name__ == "__main__":
    main()
