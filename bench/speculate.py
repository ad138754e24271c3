#!/usr/bin/env python3
"""What --speculate gains: two servers on the demo base, one with drafts and one without, asked in turns for the same
answers, which must be the same. Prints tokens a second and the median of the paired ratios.

usage: speculate.py BINARY [--rounds 7] [--tokens 4] [--length 128] [--device cpu] [--threads 0] [--json FILE]
"""

import argparse
import concurrent.futures
import json
import pathlib
import statistics
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from local_server import free_port, wait_ready

PASSAGES = [
    "The harbour lay quiet under a low grey sky, and Captain Marlow counted the boats twice before he spoke of leaving.",
    "My aunt kept seven clocks in the parlour, each of them wrong in its own way, and Edward wound them every Sunday.",
    "Beyond the mill the road divides; one branch goes down to the river, and the other climbs to the old priory wall.",
    "Doctor Wren laid the letter upon the table, smoothed it with both hands, and read it aloud to the silent company.",
    "There were three keys on the ring, a brass one, an iron one, and one so small that nobody had found what it opened.",
    "In the winter of that year the lake froze from shore to shore, and the children of the village skated to church.",
    "The tailor measured the young gentleman in haste, for a carriage waited, and he forgot the length of the left sleeve.",
    "Every evening at nine the lamp in the tower was lit by Miss Hale, who had never once been late in thirty years.",
]
NAMES = {"Captain Marlow": "Admiral Finch", "Edward": "Margaret", "the river": "the valley", "Doctor Wren": "Sister Agnes",
         "three keys": "four rings", "the lake": "the canal", "The tailor": "The barber", "Miss Hale": "Mr. Stone"}


def copying(i):
    """A passage that stood there twice begins once more."""
    passage = PASSAGES[i % len(PASSAGES)]
    return {"prompt": f"{passage}\n\n{passage}\n\n{passage[:24]}", "temperature": 0}


def editing(i):
    """A passage and its edited form, twice; the edited form begins once more."""
    passage = PASSAGES[i % len(PASSAGES)]
    edited = passage
    for name, other in NAMES.items():
        edited = edited.replace(name, other)
    return {"prompt": f"{passage}\n\n{edited}\n\n{passage}\n\n{edited[:24]}", "temperature": 0}


def nothing(i):
    """Drawn so hot that hardly three tokens in a row stand there twice."""
    return {"prompt": PASSAGES[i % len(PASSAGES)], "temperature": 1.5, "seed": 100 + i}


KINDS = {"copying": copying, "editing": editing, "nothing": nothing}


class Server:
    def __init__(self, options, speculate):
        self.url = f"http://127.0.0.1:{free_port()}"
        self.process = subprocess.Popen(
            [options.binary, "serve", "--model", str(ROOT / "demo" / "base"), "--port", self.url.rsplit(":", 1)[1],
             "--device", options.device, "--threads", str(options.threads), "--pool-gib", "0.2", "--quiet", "--log-level", "error",
             "--speculate", str(speculate)])
        wait_ready(self.url, self.process, 120)

    def ask(self, body):
        request = urllib.request.Request(self.url + "/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as reply:
            return json.load(reply)["choices"][0]["text"]

    def run(self, bodies):
        """Seconds until all are answered, and the answers."""
        with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
            begin = time.perf_counter()
            texts = list(pool.map(self.ask, bodies))
            return time.perf_counter() - begin, texts

    def drafts(self):
        with urllib.request.urlopen(self.url + "/metrics", timeout=60) as reply:
            values = {line.split(" ")[0]: float(line.split(" ")[1]) for line in reply.read().decode().splitlines()
                      if line.startswith("graft_") and "{" not in line}
        return values["graft_draft_tokens_total"], values["graft_accepted_draft_tokens_total"]

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def measure(plain, drafting, kind, batch, options):
    ratios, seconds, sums = [], [[], []], [0, 0]
    for turn in range(options.rounds + 1):
        bodies = [KINDS[kind](turn + i) | {"model": "base", "max_tokens": options.length, "ignore_eos": True}
                  for i in range(batch)]
        pair = [None, None]
        before = drafting.drafts()
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            pair[which] = (plain, drafting)[which].run(bodies)
        if pair[0][1] != pair[1][1]:
            raise SystemExit(f"{kind}: the answers differ")
        if turn == 0:
            continue  # warms both up
        sums = [total + after - old for total, after, old in zip(sums, drafting.drafts(), before)]
        ratios.append(pair[0][0] / pair[1][0])
        for which in range(2):
            seconds[which].append(pair[which][0])
    tokens = batch * options.length
    return {"kind": kind, "batch": batch, "ratio": statistics.median(ratios), "ratios": ratios,
            "plain_tokens_per_s": tokens / statistics.median(seconds[0]),
            "drafting_tokens_per_s": tokens / statistics.median(seconds[1]),
            "drafts": sums[0], "accepted": sums[1], "tokens": tokens * options.rounds}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=4)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--json")
    options = parser.parse_args()
    servers = [Server(options, 0), Server(options, options.tokens)]
    results = []
    try:
        for kind in KINDS:
            for batch in (1, 8):
                result = measure(*servers, kind, batch, options)
                results.append(result)
                print(f"{kind:8} batch {batch}: {result['plain_tokens_per_s']:7.0f} -> "
                      f"{result['drafting_tokens_per_s']:7.0f} tokens/s, ratio {result['ratio']:.2f} "
                      f"({min(result['ratios']):.2f} to {max(result['ratios']):.2f}); of {result['tokens']} tokens "
                      f"{result['accepted']:.0f} were of {result['drafts']:.0f} drafts", flush=True)
    finally:
        for server in servers:
            server.stop()
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
