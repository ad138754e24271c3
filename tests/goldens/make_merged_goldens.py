"""Writes merged/<model>.safetensors beside this file: the projections of layer 1 of the models beside it with their
adapters merged, by PEFT's merge_and_unload in fp32. Needs PyTorch (a CPU suffices), transformers and PEFT; README.md says
which versions made what is here.

usage: make_merged_goldens.py [MODEL ...]
"""

import pathlib
import sys

import peft
import torch
import transformers
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
MODELS = ["llama", "qwen2", "phi3-longrope", "glm4", "gpt2", "gpt-neox"]
LAYERS = {"gpt2": "transformer.h.1.", "gpt-neox": "gpt_neox.layers.1."}
LEFT_OUT = {"gpt2": "transformer."}  # what names begin with, but in the folder's file


def main():
    (HERE / "merged").mkdir(exist_ok=True)
    for name in sys.argv[1:] or MODELS:
        base = transformers.AutoModelForCausalLM.from_pretrained(HERE / name, dtype=torch.float32)
        merged = peft.PeftModel.from_pretrained(base, HERE / name / "adapter").merge_and_unload()
        layer = LAYERS.get(name, "model.layers.1.")
        tensors = {path.removeprefix(LEFT_OUT.get(name, "")): tensor.contiguous()
                   for path, tensor in merged.state_dict().items()
                   if path.startswith(layer) and path.endswith(".weight") and tensor.dim() == 2}
        save_file(tensors, HERE / "merged" / f"{name}.safetensors")


if __name__ == "__main__":
    main()
