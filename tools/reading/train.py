#!/usr/bin/env python3
"""Makes demo/base a base that can read, and its adapters anew for it. README.md says how and what came out.

usage: train.py --demo demo --out FOLDER --seconds 400
"""

import argparse
import json
import pathlib
import random
import tarfile
import time

import numpy as np
import torch
from tokenizers import Tokenizer

import evaluation
import llama
import refit
import sampling
from batches import Batches
from rows import RowMaker
from tasks import ANSWER, WRITTEN

# The weight of a token's loss by its class: pad, read, written, answer.
CLASS_WEIGHTS = (0.0, 0.05, 0.3, 1.0)
FORMS = ("chat", "single", "learn", "closed")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--demo", required=True, help="the folder with base/ and adapters/ to begin with")
    parser.add_argument("--out", required=True)
    parser.add_argument("--seconds", type=float, required=True, help="of training the base")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--keep", type=float, default=5.0, help="the weight of what is rehearsed")
    parser.add_argument("--block", type=int, default=4096, help="tokens of the longest sequences")
    parser.add_argument("--task-blocks", type=int, default=15)
    parser.add_argument("--workers", type=int, default=13)
    parser.add_argument("--samples", type=int, default=4096, help="texts by the base; half as many by each adapter")
    parser.add_argument("--samples-file", default="", help="where these are kept for another try")
    parser.add_argument("--refit-steps", type=int, default=40)
    parser.add_argument("--eval-rows", type=int, default=144)
    return parser.parse_args()


START = time.monotonic()


def say(text):
    print(f"{time.monotonic() - START:7.1f} s  {text}", flush=True)


def choose_attention(block, device):
    """Times what PyTorch has and leaves the fastest on."""
    kinds = ("flash", "cudnn")
    if device != "cuda":
        return
    q = torch.randn(16, 4, block, 64, device=device, dtype=torch.bfloat16, requires_grad=True)
    k, v = (torch.randn(16, 2, block, 64, device=device, dtype=torch.bfloat16, requires_grad=True) for _ in "kv")

    def switch(chosen):
        torch.backends.cuda.enable_flash_sdp(chosen == "flash")
        torch.backends.cuda.enable_cudnn_sdp(chosen == "cudnn")
        torch.backends.cuda.enable_mem_efficient_sdp(False)
        torch.backends.cuda.enable_math_sdp(False)

    times = {}
    for kind in kinds:
        switch(kind)
        try:
            for i in range(8):
                if i == 3:
                    torch.cuda.synchronize()
                    begin = time.monotonic()
                out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
                out.sum().backward()
            torch.cuda.synchronize()
            times[kind] = (time.monotonic() - begin) / 5
        except RuntimeError as error:
            say(f"attention by {kind}: {str(error)[:200]}")
    best = min(times, key=times.get)
    switch(best)
    say("attention: " + ", ".join(f"{kind} {1e3 * t:.2f} ms" for kind, t in times.items()) + f"; {best} is used")


def sample_all(options, old, loras, device):
    """Texts by the base, and by each adapter."""
    if options.samples_file and pathlib.Path(options.samples_file).exists():
        return dict(np.load(options.samples_file))
    size = options.block // 4
    texts = {"base": sampling.sample(old, options.samples, size, device, options.seed)}
    for i, (name, lora) in enumerate(loras.items()):
        with torch.no_grad():
            taught = lora.applied(old)
        texts[name] = sampling.sample(taught, options.samples // 2, size // 2, device, options.seed + 1 + i)
    if options.samples_file:
        np.savez(options.samples_file, **texts)
    say("sampled " + ", ".join(f"{name} {rows.size}" for name, rows in texts.items()) + " tokens")
    return texts


def asides_of(tokenizer, rows):
    """Sentences of sampled texts, which stand between facts."""
    sentences = []
    for text in tokenizer.decode_batch([row.tolist() for row in rows]):
        for sentence in text.replace("\n", " ").split(". "):
            sentence = " ".join(sentence.split())
            if 20 < len(sentence) < 120 and sentence[0].isupper() and "<|" not in sentence and '"' not in sentence:
                sentences.append(sentence + ".")
    return sentences


class Trainer:
    def __init__(self, options, model, old, rehearsal, asides):
        self.options, self.model, self.old = options, model, old
        self.weights = {name: tensor.clone().requires_grad_() for name, tensor in old.items()}
        self.optimizer = llama.Muon(self.weights)
        self.class_weights = torch.tensor(CLASS_WEIGHTS, device=options.device)
        self.batches = Batches(options.demo + "/base/tokenizer.json", asides, rehearsal, options.task_blocks,
                               options.block, options.workers, options.seed)
        self.num_task = options.task_blocks * options.block
        self.sums = torch.zeros(6, device=options.device)
        self.num_steps = 0

    def rate(self, share):
        return self.options.rate * min(1.0, self.num_steps / 50, (1.0 - share) / 0.5)

    def step(self, share):
        (ids, targets, classes), layout = self.batches.next(share)
        ids, targets, classes = (t.to(self.options.device, non_blocking=True) for t in (ids, targets, classes))
        x = self.model.hidden(self.weights, ids, layout)
        losses, right = self.model.losses(x[:self.num_task], self.weights, targets)
        w = self.class_weights[classes]
        with torch.no_grad():
            rehearsed = layout[-len(self.batches.rehearsal):]
            taught = self.model.hidden(self.old, ids[self.num_task:], rehearsed)
        kept = self.model.divergence(x[self.num_task:], self.weights, taught, self.old).mean()
        task = (losses * w).sum() / w.sum()
        (task + self.options.keep * kept).backward()
        self.optimizer.step(self.rate(share))
        self.num_steps += 1
        answer, written = classes == ANSWER, classes == WRITTEN
        with torch.no_grad():
            self.sums += torch.stack([(losses * answer).sum(), (right & answer).sum(), answer.sum(),
                                      (losses * written).sum(), written.sum(), kept * 1.0])
        return ids.numel()

    def report(self, share, steps, tokens, seconds):
        s = self.sums.tolist()
        self.sums.zero_()
        say(f"step {self.num_steps} {share:4.0%} rate {self.rate(share):.1e}  answers: loss {s[0] / max(1, s[2]):.3f} "
            f"tokens right {s[1] / max(1, s[2]):.3f}  written: loss {s[3] / max(1, s[4]):.3f}  kept: KL "
            f"{s[5] / steps:.4f}  {tokens / seconds / 1e3:.0f} k tokens/s, waited {self.batches.waited:.1f} s")

    def run(self, look):
        self.step(0.0)  # at rate 0: everything is compiled
        look(self.weights, min(self.options.eval_rows, 36))
        say("compiled")
        begin = since = time.monotonic()
        steps = tokens = 0
        next_look = 60.0
        while (elapsed := time.monotonic() - begin) < self.options.seconds:
            share = elapsed / self.options.seconds
            tokens += self.step(share)
            steps += 1
            if time.monotonic() - since > 10.0:
                self.report(share, steps, tokens, time.monotonic() - since)
                steps = tokens = 0
                since = time.monotonic()
            if elapsed > next_look:
                look(self.weights, min(self.options.eval_rows, 36))
                llama.save(self.weights, self.options.demo + "/base", self.options.out + "/base")
                next_look += 75.0
        self.batches.stop()


def main():
    options = arguments()
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(options.seed)
    device, block = options.device, options.block
    tokenizer = Tokenizer.from_file(options.demo + "/base/tokenizer.json")
    choose_attention(block, device)
    old = llama.load(options.demo + "/base", device)
    loras = {path.name: sampling.Lora(path, device) for path in sorted(pathlib.Path(options.demo, "adapters").iterdir())}
    texts = sample_all(options, old, loras, device)
    held = {name: rows[-len(rows) // 8:] for name, rows in texts.items()}
    texts = {name: rows[:-len(rows) // 8] for name, rows in texts.items()}
    by_adapters = np.concatenate([texts[name] for name in loras])
    model = llama.Llama(device, device == "cuda", 3 * block)
    num_tokens = (options.task_blocks + 3) * block
    trainer = Trainer(options, model, old, [(texts["base"], 2), (by_adapters, 1)],
                      asides_of(tokenizer, texts["base"][:1500]))
    maker = RowMaker(tokenizer, random.Random(10 ** 9 + options.seed))
    rows = {form: evaluation.make_rows(maker, form, options.eval_rows * (10 if form == "closed" else 1), block)
            for form in FORMS}

    def look(weights, count):
        scores = {form: evaluation.accuracy(model, weights, some[:count], num_tokens) for form, some in rows.items()}
        ppl = {name: evaluation.perplexity(model, w, held["base"], num_tokens)[0]
               for name, w in (("old", old), ("new", weights))}
        say("right answers: " + ", ".join(f"{form} {a:.1%} of {n}" for form, (a, n) in scores.items())
            + f"; perplexity of the old base's samples: old {ppl['old']:.2f}, new {ppl['new']:.2f}")
        return {"answers": scores, "perplexity": ppl}

    trainer.run(look)
    new = {name: tensor.detach().bfloat16().float() for name, tensor in trainer.weights.items()}
    llama.save(new, options.demo + "/base", out / "base")
    results = {"steps": trainer.num_steps, **look(new, 10 ** 9)}
    results["adapters"] = refit.refit_all(options, model, old, new, loras, texts, held, num_tokens, say)
    with tarfile.open(out / "adapters.tar", "w") as tar:
        for name in loras:
            tar.add(out / "adapters" / name, name)
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    say("done")


if __name__ == "__main__":
    main()
