"""Writes gradients/NAME beside this file: an adapter of rank 2 on all projections of the golden model NAME, a sequence,
its loss and the loss's gradient by the adapter's numbers. Needs what make_family_goldens.py needs. The model computes in
doubles, but where its class casts to fp32 (norms, angles).

usage: make_gradient_goldens.py [NAME ...]
"""

import pathlib
import sys

import peft
import torch
import transformers
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
NAMES = ["qwen2", "qwen2-yarn", "qwen3", "mistral-window", "gemma", "gemma2", "gemma3", "smollm3", "granite", "olmo2"]
NAMES += ["olmo3", "exaone4", "phi3-longrope", "phi3-partial-rotary", "glm", "glm4", "gpt2", "gpt-neo", "gpt-neox"]
NAMES += ["gpt-neox-serial", "phi", "starcoder2"]
MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
MODULES_OF_GLM = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_up_proj", "down_proj"]
MODULES_OF = {
    "phi3": ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"],
    "glm": MODULES_OF_GLM,
    "glm4": MODULES_OF_GLM,
    "gpt2": ["c_attn", "c_proj", "c_fc"],
    "gpt_neo": ["q_proj", "k_proj", "v_proj", "out_proj", "c_fc", "c_proj"],
    "gpt_neox": ["query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"],
    "phi": ["q_proj", "k_proj", "v_proj", "dense", "fc1", "fc2"],
    "starcoder2": ["q_proj", "k_proj", "v_proj", "o_proj", "c_fc", "c_proj"],
}
NUM_TOKENS = 24


def draw(model):
    """Numbers that fp32 files hold exactly, for B, too: with B zero A has no gradient."""
    generator = torch.Generator().manual_seed(7)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            numbers = torch.randn(parameter.shape, generator=generator, dtype=torch.float32) * 0.2
            parameter.data.copy_(numbers.to(parameter.dtype))


def make(name):
    folder = HERE / "gradients" / name
    base = transformers.AutoModelForCausalLM.from_pretrained(HERE / name, dtype=torch.float64, attn_implementation="eager")
    modules = MODULES_OF.get(base.config.model_type, MODULES)
    config = peft.LoraConfig(r=2, lora_alpha=4, target_modules=modules, task_type="CAUSAL_LM")
    model = peft.get_peft_model(base, config, autocast_adapter_dtype=False).double()
    draw(model)
    tokens = torch.randint(3, base.config.vocab_size, (1, NUM_TOKENS), generator=torch.Generator().manual_seed(11))
    labels = tokens.clone()
    labels[0, 5] = -100
    loss = model(input_ids=tokens, labels=labels).loss
    loss.backward()
    golden = {"grad." + key: parameter.grad.float() for key, parameter in model.named_parameters() if parameter.requires_grad}
    golden |= {"input_ids": tokens.int(), "labels": labels.int(), "losses": loss.detach().float().reshape(1)}
    folder.mkdir(parents=True, exist_ok=True)
    model.peft_config["default"].base_model_name_or_path = f"tests/goldens/{name}"
    model.float().save_pretrained(folder)
    for extra in ["README.md"]:
        (folder / extra).unlink(missing_ok=True)
    save_file({key: value.contiguous() for key, value in golden.items()}, folder / "golden.safetensors")
    print(name, float(loss))


if __name__ == "__main__":
    for each in sys.argv[1:] or NAMES:
        make(each)
