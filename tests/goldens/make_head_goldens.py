"""Writes heads/ beside this file: adapters of some golden models whose targets name lm_head, as PEFT saves
them (with a copy of the base's head), and the logits that HF and PEFT give with them. Needs PyTorch (a
CPU suffices), transformers and PEFT; README.md says which versions made what is here.

usage: make_head_goldens.py
"""

import pathlib
import shutil

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent
# A head of its own, one that is the embedding and has a cap, one whose logits are scaled.
MODELS = ["llama", "gemma2", "granite"]
ADAPTERS = {
    "with-head": {"r": 5, "lora_alpha": 10, "target_modules": ["q_proj", "down_proj", "lm_head"],
                  "rank_pattern": {"lm_head": 12}},
    "head-alone": {"r": 3, "lora_alpha": 4, "target_modules": ["lm_head"]},
}


def make(name, kind, options):
    torch.manual_seed(sum((name + kind).encode()))
    folder = HERE / "heads" / f"{name}-{kind}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        HERE / name, attn_implementation="eager", dtype=torch.float32
    ).eval()
    input_ids = load_file(HERE / name / "golden.safetensors")["input_ids"].long()[None]
    golden = {"input_ids": input_ids[0].int(), "logits_base": model(input_ids).logits[0]}
    adapted = peft.get_peft_model(
        model, peft.LoraConfig(task_type="CAUSAL_LM", init_lora_weights=False, **options)
    ).eval()
    for key, parameter in adapted.named_parameters():
        if "lora_" in key:
            scale = 0.7 if "lora_A" in key else 0.4
            parameter.data = (torch.randn_like(parameter) * scale / parameter.shape[-1] ** 0.5).bfloat16().float()
    golden["logits_adapter"] = adapted(input_ids).logits[0]
    adapted.peft_config["default"].base_model_name_or_path = f"graft-golden-{name}"
    adapted.save_pretrained(folder / "adapter")
    (folder / "adapter" / "README.md").unlink(missing_ok=True)
    save_file({key: value.contiguous() for key, value in golden.items()}, folder / "golden.safetensors")
    change = (golden["logits_adapter"] - golden["logits_base"]).abs().max().item()
    print(name, kind, "changes logits by up to", change)


with torch.no_grad():
    for model_name in MODELS:
        for adapter_kind, adapter in ADAPTERS.items():
            make(model_name, adapter_kind, adapter)
