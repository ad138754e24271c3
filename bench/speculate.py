#!/usr/bin/env python3
"""What --speculate gains: two servers on the demo base, one with drafts and one without, asked in turns for the same
answers, which must be the same. Prints tokens a second and the median of the paired ratios. Eight prompts for each place
of the batch follow one another, so that the batch is full but at the end.

usage: speculate.py BINARY [--rounds 7] [--tokens 4] [--device cpu] [--threads 0] [--json FILE]
"""

import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(ROOT / "tools" / "reading"))
import documents
import prompts
import tasks
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


def orders(kind, seed):
    """Endless (order, answer): sentences to repeat, or to repeat with a word replaced, in the words that demo/base was
    taught."""
    rng = random.Random(seed)
    while True:
        for sentence in documents.Writer(rng).write(600).sentences:
            if len(sentence.text) < 70 or sentence.text.startswith("#"):
                continue
            if kind == "copying":
                yield rng.choice(prompts.REPEAT).replace("{text}", sentence.text), sentence.text
            else:
                yield tasks.edit(rng, sentence.text)


def followed(server, kind, count):
    """So many prompts whose orders the base follows to the letter; it does not follow all."""
    found, source = [], orders(kind, seed=7)
    while len(found) < count:
        asked = [next(source) for _ in range(count)]
        texts = [f"<|start|>user\n{order}<|end|>\n<|start|>assistant\n" for order, _ in asked]
        answers = server.ask({"model": "base", "prompt": texts, "max_tokens": 128, "temperature": 0})[0]
        found += [text for text, answer, (_, wanted) in zip(texts, answers, asked) if answer == wanted]
    return found[:count]


def hot(count):
    """Drawn so hot that hardly three tokens in a row stand there twice."""
    return {"prompt": [PASSAGES[i % len(PASSAGES)] for i in range(count)], "temperature": 1.5, "seed": 100,
            "max_tokens": 128, "ignore_eos": True}


def body_of(server, kind, batch):
    count = 8 * batch  # one after the other, so that few steps are those of the last answers alone
    if kind == "nothing":
        return hot(count) | {"model": "base"}
    return {"model": "base", "prompt": followed(server, kind, count), "max_tokens": 128, "temperature": 0}


class Server:
    def __init__(self, options, batch, speculate):
        self.url = f"http://127.0.0.1:{free_port()}"
        self.process = subprocess.Popen(
            [options.binary, "serve", "--model", str(ROOT / "demo" / "base"), "--port", self.url.rsplit(":", 1)[1],
             "--device", options.device, "--threads", str(options.threads), "--pool-gib", "0.2", "--quiet", "--log-level", "error",
             "--sequences-max", str(batch), "--speculate", str(speculate)])
        wait_ready(self.url, self.process, 120)

    def ask(self, body):
        """The answers to all prompts, their tokens, and the seconds until all are answered."""
        request = urllib.request.Request(self.url + "/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        begin = time.perf_counter()
        with urllib.request.urlopen(request, timeout=300) as reply:
            answer = json.load(reply)
        seconds = time.perf_counter() - begin
        return [choice["text"] for choice in answer["choices"]], answer["usage"]["completion_tokens"], seconds

    def counts(self):
        with urllib.request.urlopen(self.url + "/metrics", timeout=60) as reply:
            values = {line.split(" ")[0]: float(line.split(" ")[1]) for line in reply.read().decode().splitlines()
                      if line.startswith("graft_") and "{" not in line}
        return [values[f"graft_{name}_total"] for name in ("draft_tokens", "accepted_draft_tokens", "steps")]

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def measure(plain, drafting, kind, batch, options):
    body = body_of(plain, kind, batch)
    ratios, seconds, tokens = [], [[], []], 0
    for turn in range(options.rounds + 1):
        answers = [None, None]
        if turn == 1:  # the turn before warmed both up
            before = drafting.counts()
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            answers[which] = (plain, drafting)[which].ask(body)
        if answers[0][0] != answers[1][0]:
            raise SystemExit(f"{kind}: the answers differ")
        if turn == 0:
            continue
        tokens = answers[0][1]
        ratios.append(answers[0][2] / answers[1][2])
        for which in range(2):
            seconds[which].append(answers[which][2])
    drafts, accepted, steps = (after - old for after, old in zip(drafting.counts(), before))
    return {"kind": kind, "batch": batch, "ratio": statistics.median(ratios), "ratios": ratios,
            "plain_tokens_per_s": tokens / statistics.median(seconds[0]),
            "drafting_tokens_per_s": tokens / statistics.median(seconds[1]),
            "drafts": drafts, "accepted": accepted, "steps": steps, "tokens": tokens * options.rounds}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=4)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--json")
    options = parser.parse_args()
    results = []
    for batch in (1, 8):
        servers = [Server(options, batch, 0), Server(options, batch, options.tokens)]
        try:
            for kind in ("copying", "editing", "nothing"):
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
