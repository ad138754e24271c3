#!/usr/bin/env python3
"""Writes demo/golden.json anew: what HF transformers and PEFT give in fp32 for demo/'s base and each adapter.

usage: goldens.py --demo demo [--out demo/golden.json]
"""

import argparse
import json
import pathlib

import peft
import torch
import transformers

PROMPTS = ("It was a dark and stormy night, and", "The old man looked at her and said,",
           "When the train arrived at the station")
TOKENS, TOP = 48, 20


@torch.no_grad()
def golden(model, tokenizer, name, prompt):
    ids = tokenizer(prompt)["input_ids"]
    all_ids = list(ids)
    for _ in range(TOKENS):
        all_ids.append(int(model(torch.tensor([all_ids])).logits[0, -1].argmax()))
    logprobs = model(torch.tensor([all_ids])).logits[0].float().log_softmax(-1)
    of_next = logprobs[:-1].gather(1, torch.tensor(all_ids[1:])[:, None])[:, 0].tolist()
    top = logprobs[len(ids) - 1].topk(TOP)
    return {"model": name, "prompt": prompt, "prompt_ids": ids, "greedy_ids": all_ids[len(ids):],
            "greedy_logprobs": of_next[len(ids) - 1:], "prompt_logprobs": [None, *of_next[:len(ids) - 1]],
            "next_top_ids": top.indices.tolist(), "next_top_logprobs": top.values.tolist(),
            "text": tokenizer.decode(all_ids[len(ids):])}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--demo", required=True)
    parser.add_argument("--out")
    options = parser.parse_args()
    demo = pathlib.Path(options.demo)
    tokenizer = transformers.AutoTokenizer.from_pretrained(demo / "base")
    entries = []
    for name in ["base", *sorted(path.name for path in (demo / "adapters").iterdir())]:
        model = transformers.AutoModelForCausalLM.from_pretrained(demo / "base", dtype=torch.float32)
        if name != "base":
            model = peft.PeftModel.from_pretrained(model, demo / "adapters" / name)
        entries += [golden(model.eval(), tokenizer, name, prompt) for prompt in PROMPTS]
    pathlib.Path(options.out or demo / "golden.json").write_text(json.dumps(entries))


if __name__ == "__main__":
    main()
