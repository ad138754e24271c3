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
MODELS = ["llama", "qwen2", "phi3-longrope", "glm4"]


def main():
    (HERE / "merged").mkdir(exist_ok=True)
    for name in sys.argv[1:] or MODELS:
        base = transformers.AutoModelForCausalLM.from_pretrained(HERE / name, dtype=torch.float32)
        merged = peft.PeftModel.from_pretrained(base, HERE / name / "adapter").merge_and_unload()
        tensors = {path: tensor.contiguous() for path, tensor in merged.state_dict().items()
                   if path.startswith("model.layers.1.") and path.endswith("_proj.weight")}
        save_file(tensors, HERE / "merged" / f"{name}.safetensors")


if __name__ == "__main__":
    main()
