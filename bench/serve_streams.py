#!/usr/bin/env python3
"""What `graft serve` takes of the processors under many streams: tokens a second, and for each kind of thread its cores,
its microseconds and waits (voluntary context switches) a token.

  bench/serve_streams.py build/program/graft
  bench/serve_streams.py build/gpu/graft --shape bench/shapes/llama-3.1-8b.json -- --device cuda:0

A closed loop of --streams answers of --tokens tokens, over HTTP, greedy. The model has random weights of --shape's
config.json. Without it a step is so cheap that a CPU gives 256 streams about the tokens a second that a GPU gives them with
a model of 8B. Threads are told apart by their names. Python alone.
"""

import argparse
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "bench")]
from cluster_overhead import make_model
from http_load import Ask, Load, figures, run_load
from local_server import free_port, wait_ready


def threads_of(pid):
    """Thread id: name, seconds on a processor, user's and system's ticks, waits. Ticks miss what is short, and only
    share the seconds out."""
    found = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            fields = (task / "stat").read_text().rpartition(") ")[2].split()
            status = (task / "status").read_text()
            ran_ns = int((task / "schedstat").read_text().split()[0])
            name = (task / "comm").read_text().strip()
        except FileNotFoundError:
            continue  # it has ended
        waits = int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE)[1])
        found[task.name] = (name, 1e-9 * ran_ns, int(fields[11]), int(fields[12]), waits)
    return found


def tokens_of(url):
    with urllib.request.urlopen(url + "/metrics", timeout=60) as reply:
        return float(re.search(r"^graft_output_tokens_total (\S+)$", reply.read().decode(), re.MULTILINE)[1])


class Window:
    """The measured part of a load, on a thread of its own: from `warm` seconds on, for `seconds`."""

    def __init__(self, url, pid, warm, seconds):
        self.url, self.pid, self.warm, self.seconds = url, pid, warm, seconds
        self.looks = []
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def look(self):
        return time.monotonic(), tokens_of(self.url), threads_of(self.pid)

    def watch(self):
        time.sleep(self.warm)
        self.looks.append(self.look())
        time.sleep(self.seconds)
        self.looks.append(self.look())

    def rows(self):
        """Seconds, tokens, and name: [threads, seconds, user's ticks, system's ticks, waits] of what changed."""
        self.thread.join()
        (begin, tokens, before), (end, tokens_after, after) = self.looks
        kinds = {}
        for thread, (name, *numbers) in after.items():
            old = before.get(thread, (name, 0, 0, 0, 0))[1:]
            kind = kinds.setdefault(name, [0, 0.0, 0, 0, 0])
            kind[0] += 1
            for i, (now, then) in enumerate(zip(numbers, old)):
                kind[1 + i] += now - then
        return end - begin, tokens_after - tokens, kinds


def report(seconds, tokens, kinds):
    rows = []
    for name, (count, ran, user, system, waits) in sorted(kinds.items(), key=lambda kind: -kind[1][1]):
        if ran > 0.0005 * seconds:
            rows.append({"threads": name, "count": count, "cores": ran / seconds, "us_per_token": 1e6 * ran / tokens,
                         "system_share": system / max(1, user + system), "waits_per_token": waits / tokens})
    print(f"{tokens / seconds:,.0f} tokens a second")
    print("| threads | cores | us a token | of it the kernel's | waits a token |\n|---|---|---|---|---|")
    for row in rows:
        print(f"| {row['threads']} ({row['count']}) | {row['cores']:.3f} | {row['us_per_token']:.1f} | "
              f"{row['system_share']:.0%} | {row['waits_per_token']:.2f} |")
    return {"tokens_per_second": tokens / seconds, "threads": rows}


def write_model(options, folder):
    make_model(options.shape, folder / "model")
    return folder / "model", json.loads(options.shape.read_text())["vocab_size"]


def load_of(options, vocab):
    """More answers than can end in time."""
    draw = random.Random(1)
    prompts = [draw.choices(range(300, vocab), k=options.prompt_tokens) for _ in range(64)]
    count = options.streams * max(2, round(options.seconds_of_load * options.streams_per_second / options.streams))
    return Load([[Ask("base", prompts[i % 64], options.tokens)] for i in range(count)], options.streams,
                seconds_max=options.seconds_of_load)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--shape", type=pathlib.Path, default=ROOT / "bench" / "shapes" / "streams.json")
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--prompt-tokens", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--warm", type=float, default=3, help="seconds before the measurement")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--processes", type=int, default=2, help="of the client")
    parser.add_argument("--json")
    own, flags = sys.argv[1:], []
    if "--" in own:
        own, flags = own[:own.index("--")], own[own.index("--") + 1:]
    options = parser.parse_args(own)
    options.flags = flags
    options.seconds_of_load = options.warm + options.seconds + 1
    options.streams_per_second = 100_000 / options.tokens
    return options


def main():
    options = parse()
    with tempfile.TemporaryDirectory() as folder:
        model, vocab = write_model(options, pathlib.Path(folder))
        url = f"http://127.0.0.1:{free_port()}"
        process = subprocess.Popen([options.binary, "serve", "--model", str(model), "--model-name", "base", "--port",
                                    url.rsplit(":", 1)[1], "--sequences-max", str(options.streams), "--request-log", "false",
                                    "--quiet", "--log-level", "warn", *options.flags])
        try:
            wait_ready(url, process, 600)
            load = load_of(options, vocab)
            window = Window(url, process.pid, options.warm, options.seconds)
            heard, busiest = run_load(url, load, options.processes)
            result = report(*window.rows())
            row = figures([heard])
            print(f"{row['errors']} errors; the busiest process of the client took {busiest:.0%} of a core")
            if options.json:
                pathlib.Path(options.json).write_text(json.dumps(result | {"errors": row["errors"]}) + "\n")
            if row["errors"]:
                raise SystemExit(row["first_error"])
        finally:
            process.terminate()
            process.wait(60)


if __name__ == "__main__":
    main()
