#!/usr/bin/env python3
"""What activated LoRA saves: the first token after a long conversation that an adapter has held, asked of another adapter,
as an activated one and as a plain one, in turns on one server over the demo base.

usage: activated.py BINARY [--rounds 9] [--tokens 950] [--device cpu] [--threads 0] [--shape CONFIG --folder DIR]

--shape writes a model of that config.json with random weights, and adapters of rank 16 on its q_proj, into --folder.
"""

import argparse
import json
import pathlib
import os
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "bench")]
import cluster_overhead
from local_server import free_port, wait_ready

INVOCATION = [4000, 4001, 4002]


def write_adapter(path, shape):
    """LoRA on q_proj of each layer: random numbers of 0.0005 to 0.001."""
    config = json.loads(pathlib.Path(shape).read_text())
    hidden, head = config["hidden_size"], config["hidden_size"] // config["num_attention_heads"]
    width = config["num_attention_heads"] * config.get("head_dim", head)
    header, data = {}, b""
    for layer in range(config["num_hidden_layers"]):
        for side, of in (("A", (16, hidden)), ("B", (width, 16))):
            noise = bytearray(os.urandom(2 * of[0] * of[1]))
            noise[1::2] = bytes(0x3A | (byte & 0x80) for byte in noise[1::2])
            name = f"base_model.model.model.layers.{layer}.self_attn.q_proj.lora_{side}.weight"
            header[name] = {"dtype": "BF16", "shape": of, "data_offsets": [len(data), len(data) + len(noise)]}
            data += noise
    text = json.dumps(header).encode()
    path.mkdir(parents=True)
    (path / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (path / "adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": 16, "lora_alpha": 16, "target_modules": ["q_proj"], "base_model_name_or_path": "base"}))


def make_adapters(folder, shape):
    for name in ("austen", "wodehouse"):
        for kind in ("plain", "activated"):
            path = folder / f"{kind}-{name}"
            if shape:
                write_adapter(path, shape)
            else:
                shutil.copytree(ROOT / "demo" / "adapters" / name, path)
            if kind == "activated":
                config = path / "adapter_config.json"
                config.write_text(json.dumps(json.loads(config.read_text()) | {"alora_invocation_tokens": INVOCATION}))


def ask(url, model, prompt):
    """Milliseconds to the first token, and the prompt's cached tokens."""
    body = {"model": model, "prompt": prompt, "max_tokens": 1, "temperature": 0}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    begin = time.perf_counter()
    with urllib.request.urlopen(request, timeout=300) as reply:
        usage = json.load(reply)["usage"]
    return (time.perf_counter() - begin) * 1e3, usage["prompt_tokens_details"]["cached_tokens"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=950)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--shape", help="a config.json; a model of random weights instead of the demo's")
    parser.add_argument("--folder", type=pathlib.Path, help="where that model is written, unless it is there")
    parser.add_argument("--pool-gib", default="0.3")
    options = parser.parse_args()
    if (options.shape is None) != (options.folder is None):
        parser.error("--shape and --folder go together")
    model = options.folder or ROOT / "demo" / "base"
    if options.shape and not (model / "model.safetensors").exists():
        cluster_overhead.make_model(options.shape, model)
    draw = random.Random(1)
    times = {"plain": [], "activated": []}
    with tempfile.TemporaryDirectory() as folder:
        make_adapters(pathlib.Path(folder), options.shape)
        url = f"http://127.0.0.1:{free_port()}"
        process = subprocess.Popen(
            [options.binary, "serve", "--model", str(model), "--adapters", folder, "--device", options.device,
             "--port", url.rsplit(":", 1)[1], "--threads", str(options.threads), "--pool-gib", options.pool_gib, "--quiet",
             "--log-level", "error"])
        try:
            wait_ready(url, process, 300)
            for turn in range(options.rounds + 1):
                for kind in ("plain", "activated") if turn % 2 == 0 else ("activated", "plain"):
                    conversation = [draw.randrange(10, 3900) for _ in range(options.tokens)]
                    ask(url, f"{kind}-austen", conversation + INVOCATION)
                    took, cached = ask(url, f"{kind}-wodehouse", conversation + INVOCATION)
                    if turn > 0:  # the first one loads the adapters
                        times[kind].append(took)
                        assert (cached > 0) == (kind == "activated"), cached
        finally:
            process.terminate()
            process.wait(60)
    medians = {kind: statistics.median(values) for kind, values in times.items()}
    ratio = statistics.median(a / b for a, b in zip(times["activated"], times["plain"]))
    print(f"first token after {options.tokens} tokens: plain {medians['plain']:.1f} ms, activated "
          f"{medians['activated']:.1f} ms, ratio {ratio:.3f} of {options.rounds} pairs")


if __name__ == "__main__":
    main()
