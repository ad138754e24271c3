#!/usr/bin/env python3
"""Whether PEFT itself reads what `graft learn` wrote, and computes what a running server answers.

  tools/peft_reads.py --model DIR --folder ADAPTER --url http://127.0.0.1:8000 --name NAME

Needs PyTorch, transformers and PEFT. A bundle's LoRA is merged first, since PEFT takes one adapter at a time; its
prompt is put in front of that. Prints the largest difference of the log-probabilities of a text's tokens, and ends
with 1 where it is above --bound (a server of bf16 weights rounds keys and values to fp16).
"""

import argparse
import json
import pathlib
import sys
import urllib.request

TEXT = "The keeper lived in the tower with a grey parrot, and every evening at six o'clock he lit the lamp."


def served(url, name, text):
    """Token ids, and the log-probabilities that the server gives them; none for the first."""
    def post(path, body):
        request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as reply:
            return json.load(reply)

    tokens = post("/tokenize", {"model": name, "prompt": text})["tokens"]
    reply = post("/v1/completions", {"model": name, "prompt": tokens, "max_tokens": 0, "echo": True, "logprobs": 0})
    return tokens, reply["choices"][0]["logprobs"]["token_logprobs"]


def by_peft(model_dir, folder, tokens):
    import peft
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32).eval()
    folder = pathlib.Path(folder)
    parts = [folder] if (folder / "adapter_config.json").exists() else [folder / "lora", folder / "prompt"]
    parts = [part for part in parts if part.exists()]
    for part in parts:
        model = peft.PeftModel.from_pretrained(model, part).eval()
        print(f"PEFT {peft.__version__} read {part}: {model.peft_config['default'].peft_type}")
        if part != parts[-1]:
            model = model.merge_and_unload()
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0][-len(tokens):]
    logprobs = logits.log_softmax(-1)
    return [logprobs[i, token].item() for i, token in enumerate(tokens[1:])]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("model", "folder", "url", "name"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--bound", type=float, default=0.05)
    options = parser.parse_args()
    tokens, said = served(options.url.rstrip("/"), options.name, TEXT)
    wanted = by_peft(options.model, options.folder, tokens)
    worst = max(abs(a - b) for a, b in zip(said[1:], wanted))
    print(f"{len(wanted)} tokens, largest difference of a log-probability {worst:.5f}")
    sys.exit(worst > options.bound)


if __name__ == "__main__":
    main()
