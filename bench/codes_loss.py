#!/usr/bin/env python3
"""What weights of codes cost in answers: a base and its adapters, served as bf16, int8, int4 and NF4.

  bench/codes_loss.py --graft build/release/graft --json loss.json          the demo's base and its adapters
  bench/codes_loss.py --graft build/release/graft --weights int4,nf4 ...    these beside bf16

Questions are about documents that no training saw (tools/reading), each document before its questions in the prompt; an
answer is right if it is so to the last letter. Perplexity is that of texts which the model of bf16 wrote itself, base
and adapter each its own. One server after the other on this machine; nothing is timed.
"""

import argparse
import json
import math
import pathlib
import random
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
for folder in ("tools", "tools/reading", "tools/ocl_eval"):
    sys.path.insert(0, str(ROOT / folder))

import documents
from asking import Client
from local_server import free_port, wait_ready
from tasks import Passage

CHARS = (5200, 10200)  # of a document: 1,500 to 3,500 tokens
SEED = 3_000_000_000
TEXTS, TEXT_TOKENS = 24, 256


def passages(count, questions):
    """Documents with their questions and answers, the same in every run."""
    made = []
    for i in range(count):
        rng = random.Random(SEED + i)
        passage = Passage(rng, documents.Writer(rng).write(rng.randint(*CHARS)))
        pairs = [passage.question() for _ in range(min(questions, len(passage.facts)))]
        made.append((passage.text.strip(), pairs))
    return made


def answered(client, model, asked):
    """Of each question whether its answer is right. The first of a document brings it into the prefix cache."""
    right = []
    for text, pairs in asked:
        given = [client.answer(model, text, pairs[0][0])]
        given += client.all(client.answer, [(model, text, question) for question, _ in pairs[1:]])
        right += [answer == wanted for answer, (_, wanted) in zip(given, pairs)]
    return right


def perplexity(client, model, texts):
    values = client.all(lambda tokens: client.likelihood_of(model, tokens[:1], tokens[1:]), [(t,) for t in texts])
    return math.exp(-sum(total for total, _ in values) / sum(count for _, count in values))


def serve(options, weights):
    port = free_port()
    command = [options.graft, "serve", "--model", options.model, "--adapters", options.adapters, "--model-name", "base",
               "--port", str(port), "--weights", weights]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    wait_ready(f"http://127.0.0.1:{port}", process, 600)
    return process, Client(f"http://127.0.0.1:{port}", True, 32, 8)


def measure(options, weights, models, asked, texts):
    process, client = serve(options, weights)
    try:
        if not texts:
            start = client.post("/tokenize", {"model": "base", "prompt": ""})["tokens"]
            for model in models:
                texts[model] = client.written(model, start, TEXTS, TEXT_TOKENS)
        rows = {}
        for model in models:
            right = answered(client, model, asked if model == "base" else asked[:options.adapter_documents])
            rows[model] = {"right": right, "perplexity": perplexity(client, model, texts[model])}
            print(f"{weights} {model}: {sum(right)} of {len(right)}, {rows[model]['perplexity']:.3f}", flush=True)
        return rows
    finally:
        process.terminate()
        process.wait()


def table(results):
    plain = results["plain"]
    formats = list(results)
    lines = ["| | questions | " + " | ".join(formats) + " |", "|---" * (2 + len(formats)) + "|"]

    def row(name, models):
        asked = sum(len(plain[m]["right"]) for m in models)
        right = {f: sum(sum(results[f][m]["right"]) for m in models) for f in formats}
        ppl = {f: math.exp(sum(math.log(results[f][m]["perplexity"]) for m in models) / len(models)) for f in formats}
        cells = [f"{right[f]} ({right[f] / max(1, right['plain']):.3f}), {ppl[f]:.2f}" for f in formats]
        lines.append(f"| {name} | {asked} | " + " | ".join(cells) + " |")

    for model in plain:
        row(model, [model])
    row("all", list(plain))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graft", default=str(ROOT / "build/release/graft"))
    parser.add_argument("--model", default=str(ROOT / "demo/base"))
    parser.add_argument("--adapters", default=str(ROOT / "demo/adapters"))
    parser.add_argument("--weights", default="int8,int4,nf4")
    parser.add_argument("--documents", type=int, default=30)
    parser.add_argument("--adapter-documents", type=int, default=8, help="of them, those that adapters are asked about")
    parser.add_argument("--questions", type=int, default=25, help="of each document")
    parser.add_argument("--json")
    options = parser.parse_args()
    models = ["base", *sorted(path.name for path in pathlib.Path(options.adapters).iterdir() if path.is_dir())]
    asked, texts, results = passages(options.documents, options.questions), {}, {}
    for weights in ["plain", *options.weights.split(",")]:
        results[weights] = measure(options, weights, models, asked, texts)
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(results) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
