#!/usr/bin/env python3
"""Writes PEFT folders of LoRA adapters with random bf16 weights for a model's shape, all modules adapted.

  random_adapters.py CONFIG_JSON FOLDER COUNT [RANK]

Each has another hash. They are made to be read, hashed and converted: answers on them mean nothing.
"""

import json
import os
import random
import sys


def tensors(shape, rank):
    hidden, inner = shape["hidden_size"], shape["intermediate_size"]
    head = shape.get("head_dim", hidden // shape["num_attention_heads"])
    q = head * shape["num_attention_heads"]
    kv = head * shape.get("num_key_value_heads", shape["num_attention_heads"])
    modules = {"self_attn.q_proj": (hidden, q), "self_attn.k_proj": (hidden, kv), "self_attn.v_proj": (hidden, kv),
               "self_attn.o_proj": (q, hidden), "mlp.gate_proj": (hidden, inner), "mlp.up_proj": (hidden, inner),
               "mlp.down_proj": (inner, hidden)}
    for layer in range(shape["num_hidden_layers"]):
        for module, (inputs, outputs) in modules.items():
            name = f"base_model.model.model.layers.{layer}.{module}"
            yield name + ".lora_A.weight", [rank, inputs]
            yield name + ".lora_B.weight", [outputs, rank]


def main():
    with open(sys.argv[1]) as file:
        shape = json.load(file)
    folder, count = sys.argv[2], int(sys.argv[3])
    rank = int(sys.argv[4]) if len(sys.argv) > 4 else 16
    header, at = {}, 0
    for name, sizes in tensors(shape, rank):
        size = 2 * sizes[0] * sizes[1]
        header[name] = {"dtype": "BF16", "shape": sizes, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    # Exponents that keep every value below 2^-5; signs and mantissas are random.
    block = bytearray(random.Random(1).randbytes(1 << 20))
    for i in range(0, len(block), 2):
        block[i + 1] = block[i + 1] & 0x80 | 0x3d
        block[i] &= 0x7f
    data = (bytes(block) * (at // len(block) + 1))[:at]
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": rank,
              "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]}
    for i in range(count):
        path = os.path.join(folder, f"random-{i:04}")
        os.makedirs(path, exist_ok=True)
        with open(path + "/adapter_config.json", "w") as file:
            json.dump(config, file)
        with open(path + "/adapter_model.safetensors", "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text + data[:-4])
            file.write(bytes((i & 0x7f, 0x3d, i >> 7 & 0x7f, 0x3d)))


if __name__ == "__main__":
    main()
