#!/usr/bin/env python3
"""Writes PEFT folders of LoRA adapters with random bf16 weights for a model's shape, all modules adapted.

  random_adapters.py CONFIG_JSON FOLDER COUNT [RANK]

Each has weights of its own. They are made to be read, hashed and converted: answers on them mean nothing.
"""

import json
import pathlib
import sys

from random_folders import ATTENTION, MLP, write_lora


def main():
    shape = json.loads(pathlib.Path(sys.argv[1]).read_text())
    folder, count = pathlib.Path(sys.argv[2]), int(sys.argv[3])
    rank = int(sys.argv[4]) if len(sys.argv) > 4 else 16
    config = json.dumps({"peft_type": "LORA", "r": rank, "lora_alpha": rank,
                         "target_modules": [f"{name}_proj" for name in ATTENTION + MLP]})
    for number in range(count):
        path = folder / f"random-{number:04}"
        path.mkdir(parents=True, exist_ok=True)
        (path / "adapter_config.json").write_text(config)
        write_lora(path / "adapter_model.safetensors", shape, rank)


if __name__ == "__main__":
    main()
