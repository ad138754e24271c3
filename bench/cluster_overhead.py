#!/usr/bin/env python3
"""What a frontend and a runner cost beside one process: tokens per second of both in turns, and their ratio.

  bench/cluster_overhead.py --batch 8
  bench/cluster_overhead.py --binary bundle/graft --shape bench/shapes/llama-2-7b.json --batch 32 \\
      --engine --device cuda:0 --pool-gib 20

Starts `graft serve`, and `graft runner` with `graft frontend`, on one model, and asks them in turns for --batch streams
at a time. --shape writes a model of that config.json with random weights into --folder first. Python alone.
"""

import argparse
import json
import os
import pathlib
import selectors
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from local_server import free_port, wait_ready

DEMO = ROOT / "demo"
BLOCK_BYTES = 1 << 24


def tensors_of(config):
    """(name, shape) of each, as HF names a Llama's."""
    hidden, mlp, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    head = config.get("head_dim", hidden // heads)
    kv = config["num_key_value_heads"] * head
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden)
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        yield layer + "input_layernorm.weight", (hidden,)
        for name, shape in (("self_attn.q", (heads * head, hidden)), ("self_attn.k", (kv, hidden)),
                            ("self_attn.v", (kv, hidden)), ("self_attn.o", (hidden, heads * head)),
                            ("mlp.gate", (mlp, hidden)), ("mlp.up", (mlp, hidden)), ("mlp.down", (hidden, mlp))):
            yield f"{layer}{name}_proj.weight", shape
        yield layer + "post_attention_layernorm.weight", (hidden,)
    yield "model.norm.weight", (hidden,)
    if not config.get("tie_word_embeddings"):
        yield "lm_head.weight", (config["vocab_size"], hidden)


def make_model(shape, folder):
    """A model folder: the config, random bf16 weights of 0.008 to 0.016, the demo's tokenizer with words for every id."""
    folder.mkdir(parents=True, exist_ok=True)
    config = json.loads(pathlib.Path(shape).read_text())
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = json.loads((DEMO / "base" / "tokenizer.json").read_text())
    vocab = tokenizer["model"]["vocab"]
    for token in range(max(vocab.values()) + 1, config["vocab_size"]):
        vocab[f"word{token}"] = token
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    shutil.copy(DEMO / "base" / "tokenizer_config.json", folder)
    header, offset = {}, 0
    for name, shape_of in tensors_of(config):
        size = 2
        for extent in shape_of:
            size *= extent
        header[name] = {"dtype": "BF16", "shape": shape_of, "data_offsets": [offset, offset + size]}
        offset += size
    noise = bytearray(os.urandom(BLOCK_BYTES))
    noise[1::2] = bytes(0x3C | (byte & 0x80) for byte in noise[1::2])
    text = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, entry in header.items():
            size = entry["data_offsets"][1] - entry["data_offsets"][0]
            if len(entry["shape"]) == 1:
                file.write(b"\x80\x3f" * (size // 2))
                continue
            for begin in range(0, size, BLOCK_BYTES):
                file.write(noise[:min(BLOCK_BYTES, size - begin)])


def measure(port, batch, tokens, number):
    """Seconds that `batch` streams of `tokens` tokens each take, all at once."""
    selector = selectors.DefaultSelector()
    began = time.monotonic()
    for i in range(batch):
        body = json.dumps({"model": "base", "prompt": f"{number} {i}: It was a long day, and", "max_tokens": tokens,
                           "temperature": 0, "ignore_eos": True, "stream": True,
                           "stream_options": {"include_usage": True}}).encode()
        stream = socket.create_connection(("127.0.0.1", port))
        stream.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
        selector.register(stream, selectors.EVENT_READ, [])
    left = batch
    while left > 0:
        for key, _ in selector.select():
            data = key.fileobj.recv(1 << 16)
            key.data.append(data)
            if data:
                continue
            reply = b"".join(key.data)
            if b"data: [DONE]" not in reply or f'"completion_tokens":{tokens}'.encode() not in reply:
                sys.exit(f"a stream ended early: {reply[-500:]!r}")
            selector.unregister(key.fileobj)
            key.fileobj.close()
            left -= 1
    return time.monotonic() - began


def start(args, *command):
    return subprocess.Popen([args.binary, *map(str, command), "--log-level", "warn"])


def main(args):
    model = pathlib.Path(args.model)
    if args.shape:
        model = pathlib.Path(args.folder)
        make_model(args.shape, model)
    port, rpc_port, frontend_port = free_port(), free_port(), free_port()
    common = ["--model", model, "--model-name", "base"]
    processes = [start(args, "serve", *common, "--port", port, *args.engine),
                 start(args, "runner", *common, "--rpc-port", rpc_port, *args.engine),
                 start(args, "frontend", *common, "--runners", f"127.0.0.1:{rpc_port}", "--port", frontend_port)]
    try:
        wait_ready(f"http://127.0.0.1:{port}", processes[0], timeout_s=500)
        wait_ready(f"http://127.0.0.1:{frontend_port}", processes[2], timeout_s=500)
        alone, together = [], []
        for number in range(args.rounds + 1):
            turns = [(port, alone), (frontend_port, together)]
            for one_port, seconds in turns if number % 2 == 0 else reversed(turns):
                seconds.append(measure(one_port, args.batch, args.tokens, number))
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
    alone, together = alone[1:], together[1:]  # the first warms
    total = args.batch * args.tokens
    ms = [(b - a) * 1000 / args.tokens for a, b in zip(alone, together)]
    result = {"batch": args.batch, "tokens": args.tokens, "rounds": args.rounds,
              "tokens_per_second_one_process": round(total / statistics.median(alone), 1),
              "tokens_per_second_frontend_and_runner": round(total / statistics.median(together), 1),
              "ratio": round(statistics.median(a / b for a, b in zip(alone, together)), 4),
              "ms_added_per_token": round(statistics.median(ms), 4)}
    print(json.dumps(result, indent=1))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=str(ROOT / "build/release/graft"))
    parser.add_argument("--model", default=str(DEMO / "base"))
    parser.add_argument("--shape", help="config.json, instead of --model")
    parser.add_argument("--folder", default="/tmp/graft-overhead-model", help="where a --shape's model is written")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=200, help="of each answer")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json")
    parser.add_argument("--engine", nargs=argparse.REMAINDER, default=[], help="last: options of serve and runner")
    main(parser.parse_args())
