#!/usr/bin/env python3
"""What the libraries make of the folders that `graft quantize` writes: bitsandbytes, and compressed-tensors, both
by transformers.

  tests/goldens/quantised/read_written.py --graft build/dev/graft            writes written.json
  tests/goldens/quantised/read_written.py --graft build/dev/graft --check    ends with 1 where it would be another

written.json has the SHA-256 of each file that graft writes, and of each weight that the library dequantises out of it.
Wants torch, transformers, accelerate, bitsandbytes 0.50.2 and compressed-tensors 0.20.0; all run on a CPU.
"""

import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from bitsandbytes import functional as bnb
from compressed_tensors.compressors import decompress_module
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
# Llamas with groups of 64 and of 128, what is stored as one (Phi 3), biases and a head of its own.
BASES = {"llama": "tests/goldens/llama", "demo": "demo/base", "phi3": "tests/goldens/phi3-partial-rotary",
         "qwen2": "tests/goldens/qwen2"}
# Models that see, which NF4's blocks do not divide.
NARROW = {name: f"tests/goldens/{name}" for name in ("llava", "qwen2-vl", "smolvlm")}


def row_of(tensor):
    data = tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
    return {"dtype": str(tensor.dtype)[6:], "shape": list(tensor.shape), "sha256": hashlib.sha256(data).hexdigest()}


def load(folder):
    sees = hasattr(AutoConfig.from_pretrained(folder), "text_config")
    kind = AutoModelForImageTextToText if sees else AutoModelForCausalLM
    model, loading = kind.from_pretrained(folder, dtype="auto", device_map="cpu", output_loading_info=True)
    for trouble in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if loading[trouble]:
            sys.exit(f"{folder}: {trouble}: {sorted(loading[trouble])}")
    return model


def numbers_of(module):
    """The weight of a module with codes, dequantised by its library; none of another module."""
    state = getattr(module.weight, "quant_state", None) if hasattr(module, "weight") else None
    if state is not None:
        return bnb.dequantize_4bit(module.weight.data, state)
    if hasattr(module, "weight_packed"):
        decompress_module(module)
        return module.weight.data
    # What transformers has decompressed while it loaded.
    if getattr(module, "quantization_scheme", None) is not None:
        return module.weight.data
    return None


def read(folder):
    numbers = {}
    for name, module in load(folder).named_modules():
        weight = numbers_of(module)
        if weight is not None:
            numbers[name + ".weight"] = row_of(weight)
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.safetensors"))}
    return {"files": files, "numbers": dict(sorted(numbers.items()))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graft", default=str(ROOT / "build/dev/graft"))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for base, path in {**BASES, **NARROW}.items():
            for codes in ("int8", "int4") if base in NARROW else ("int8", "int4", "nf4"):
                out = pathlib.Path(folder) / f"{base}-{codes}"
                subprocess.run([options.graft, "quantize", str(ROOT / path), "--to", codes, "--out", str(out)],
                               check=True, stdout=subprocess.DEVNULL)
                found[f"{base} {codes}"] = read(out)
                print(f"{base} {codes}: {len(found[f'{base} {codes}']['numbers'])} weights read", flush=True)
    target = HERE / "written.json"
    if not options.check:
        target.write_text(json.dumps(found, indent=0) + "\n")
    elif found != json.loads(target.read_text()):
        sys.exit(f"{target} says otherwise")


if __name__ == "__main__":
    main()
