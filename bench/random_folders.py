#!/usr/bin/env python3
"""A model of a given shape with random weights, and adapters for it, as folders that any server reads.

  bench/random_folders.py bench/shapes/llama-3.1-8b.json FOLDER --adapters 1000

FOLDER/model has bf16 weights and a tokenizer with a word for every id; FOLDER/adapters has a0, a1, ..., each of rank
--rank on all seven projections. All adapters share one file of weights, by hard links. Their configurations differ by
spaces, so that they are different adapters for a server that knows adapters by content. What is there is kept.
"""

import argparse
import json
import os
import pathlib
import struct

from cluster_overhead import make_model

ATTENTION = ["q", "k", "v", "o"]
MLP = ["gate", "up", "down"]


def lora_tensors(config, rank):
    """(name, shape) of each, as PEFT names a Llama's."""
    hidden, mlp, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    head = config.get("head_dim", hidden // heads)
    kv = config["num_key_value_heads"] * head
    sides = {"q": (hidden, heads * head), "k": (hidden, kv), "v": (hidden, kv), "o": (heads * head, hidden),
             "gate": (hidden, mlp), "up": (hidden, mlp), "down": (mlp, hidden)}
    for layer in range(config["num_hidden_layers"]):
        for name, (inputs, outputs) in sides.items():
            part = "self_attn" if name in ATTENTION else "mlp"
            path = f"base_model.model.model.layers.{layer}.{part}.{name}_proj.lora_"
            yield path + "A.weight", (rank, inputs)
            yield path + "B.weight", (outputs, rank)


def write_lora(path, config, rank):
    """bf16 numbers of 0.008 to 0.031, of either sign."""
    header, offset = {}, 0
    for name, shape in lora_tensors(config, rank):
        size = 2 * shape[0] * shape[1]
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    data = bytearray(os.urandom(offset))
    data[1::2] = data[1::2].translate(bytes(0x3C | (byte & 0x80) for byte in range(256)))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def make_adapters(shape, model, folder, count, rank):
    config = json.loads(pathlib.Path(shape).read_text())
    # vLLM's resolver takes an adapter whose base is named by the path that the server was given.
    peft = json.dumps({"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": str(model), "r": rank,
                       "lora_alpha": rank, "lora_dropout": 0.0, "bias": "none", "fan_in_fan_out": False,
                       "target_modules": [f"{name}_proj" for name in ATTENTION + MLP]})
    for number in range(count):
        path = folder / f"a{number}"
        if (path / "adapter_config.json").exists():
            continue
        path.mkdir(parents=True, exist_ok=True)
        weights = path / "adapter_model.safetensors"
        weights.unlink(missing_ok=True)
        if number == 0:
            write_lora(weights, config, rank)
        else:
            os.link(folder / "a0" / weights.name, weights)
        (path / "adapter_config.json").write_text(peft + " " * number)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", help="a config.json")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--adapters", type=int, default=0)
    parser.add_argument("--rank", type=int, default=16)
    options = parser.parse_args()
    folder = options.folder.resolve()
    model = folder / "model"
    if not model.exists():
        make_model(options.shape, folder / "unfinished")
        (folder / "unfinished").rename(model)
    make_adapters(options.shape, model, folder / "adapters", options.adapters, options.rank)


if __name__ == "__main__":
    main()
