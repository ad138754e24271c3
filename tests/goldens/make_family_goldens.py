"""Writes the goldens of families beside this file: all, or those that are named. Needs PyTorch (a CPU
suffices), transformers and PEFT; README.md says which versions made what is here.

usage: make_family_goldens.py [NAME ...]
"""

import copy
import pathlib
import sys

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent
NUM_TOKENS = 24

SMALL = {
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 2,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
APART = {
    "r": 8,
    "lora_alpha": 16,
    "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    "rank_pattern": {"v_proj": 4, "down_proj": 12},
    "alpha_pattern": {"v_proj": 3},
}
FUSED = {
    "r": 8,
    "lora_alpha": 16,
    "target_modules": ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"],
    "rank_pattern": {"qkv_proj": 6, "down_proj": 12},
    "alpha_pattern": {"qkv_proj": 5},
}
GLM = {
    "r": 8,
    "lora_alpha": 16,
    "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_up_proj", "down_proj"],
    "rank_pattern": {"gate_up_proj": 6, "v_proj": 4},
    "alpha_pattern": {"gate_up_proj": 5},
}
GPT2 = {
    "vocab_size": 256,
    "n_embd": 32,
    "n_layer": 3,
    "n_head": 4,
    "n_positions": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GPT_NEO = {
    "vocab_size": 256,
    "hidden_size": 32,
    "num_layers": 2,
    "num_heads": 4,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
NARROW = {"hidden_size": 32, "intermediate_size": 80, "num_attention_heads": 2}


def lora(*targets, ranks, alphas):
    return {
        "r": 8,
        "lora_alpha": 16,
        "target_modules": list(targets),
        "rank_pattern": ranks,
        "alpha_pattern": alphas,
    }


LONG_ROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0, 1.05, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6],
    "long_factor": [1.1, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0],
}

NEOX = lora(
    "query_key_value",
    "dense",
    "dense_h_to_4h",
    "dense_4h_to_h",
    ranks={"query_key_value": 6, "dense_4h_to_h": 12},
    alphas={"query_key_value": 5},
)

# Folder: config class, what differs from SMALL (all of it, if it has a vocabulary), adapter. Caps and windows are so small that 24
# tokens of random weights feel them.
GOLDENS = {
    "gemma2": (
        transformers.Gemma2Config,
        {
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 24,
            "query_pre_attn_scalar": 20,
            "sliding_window": 8,
            "attn_logit_softcapping": 3.0,
            "final_logit_softcapping": 2.0,
        },
        APART,
    ),
    "gemma3": (
        transformers.Gemma3TextConfig,
        {
            "num_attention_heads": 4,
            "num_key_value_heads": 1,
            "head_dim": 32,
            "query_pre_attn_scalar": 40,
            "sliding_window": 8,
            "layer_types": ["sliding_attention", "full_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            },
        },
        APART | {"use_rslora": True},
    ),
    "phi3-longrope": (
        transformers.Phi3Config,
        {
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "original_max_position_embeddings": 16,
            "rope_parameters": LONG_ROPE,
        },
        FUSED,
    ),
    "phi3-partial-rotary": (
        transformers.Phi3Config,
        {
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "sliding_window": 8,
            "tie_word_embeddings": True,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "partial_rotary_factor": 0.75,
            },
        },
        FUSED,
    ),
    # Layers 0 and 2 rotate, 1 does not.
    "smollm3": (
        transformers.SmolLM3Config,
        {
            "num_hidden_layers": 3,
            "hidden_size": 32,
            "intermediate_size": 80,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "no_rope_layer_interval": 2,
        },
        APART,
    ),
    "granite": (
        transformers.GraniteConfig,
        {
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "attention_bias": True,
            "mlp_bias": True,
            "embedding_multiplier": 6.0,
            "attention_multiplier": 0.17,
            "residual_multiplier": 0.3,
            "logits_scaling": 3.0,
        },
        APART,
    ),
    "olmo2": (
        transformers.Olmo2Config,
        {"num_attention_heads": 4, "num_key_value_heads": 2},
        APART,
    ),
    # yarn stretches the angles of layers that attend fully alone.
    "olmo3": (
        transformers.Olmo3Config,
        {
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "sliding_window": 8,
            "layer_types": ["sliding_attention", "full_attention"],
            "rope_parameters": {
                "full_attention": {
                    "rope_type": "yarn",
                    "rope_theta": 20000.0,
                    "factor": 4.0,
                    "original_max_position_embeddings": 16,
                    "beta_fast": 2.0,
                    "beta_slow": 0.25,
                },
                "sliding_attention": {"rope_type": "default", "rope_theta": 20000.0},
            },
        },
        APART,
    ),
    # Layers 0 and 2 slide and rotate, 1 does neither.
    "exaone4": (
        transformers.Exaone4Config,
        {
            "num_hidden_layers": 3,
            "hidden_size": 32,
            "intermediate_size": 80,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 12,
            "sliding_window": 8,
            "sliding_window_pattern": 2,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 10000.0,
                "factor": 4.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 16,
            },
        },
        APART,
    ),
    "glm": (
        transformers.GlmConfig,
        {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32},
        GLM,
    ),
    "glm4": (
        transformers.Glm4Config,
        {
            "hidden_size": 32,
            "intermediate_size": 80,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "attention_bias": False,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "partial_rotary_factor": 0.75,
            },
        },
        GLM | {"use_rslora": True},
    ),
    "gemma": (
        transformers.GemmaConfig,
        {"num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 24},
        APART,
    ),
    # Betas so small that a context of 16 has dimensions of all three kinds.
    "qwen2-yarn": (
        transformers.Qwen2Config,
        {
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 10000.0,
                "factor": 4.0,
                "original_max_position_embeddings": 16,
                "beta_fast": 2.0,
                "beta_slow": 0.25,
                "mscale": 1.5,
                "mscale_all_dim": 0.5,
                "truncate": False,
            },
        },
        APART,
    ),
    "gpt2": (
        transformers.GPT2Config,
        GPT2 | {"scale_attn_by_inverse_layer_idx": True},
        lora("c_attn", "c_proj", "c_fc", ranks={"c_attn": 6, "mlp.c_proj": 12}, alphas={"c_attn": 5}),
    ),
    "gpt-neo": (
        transformers.GPTNeoConfig,
        GPT_NEO | {"window_size": 8, "attention_types": [[["global", "local"], 1]]},
        lora(
            "q_proj",
            "k_proj",
            "v_proj",
            "out_proj",
            "c_fc",
            "c_proj",
            ranks={"v_proj": 4, "c_proj": 12},
            alphas={"v_proj": 3},
        ),
    ),
    "gpt-neox": (
        transformers.GPTNeoXConfig,
        NARROW
        | {
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "partial_rotary_factor": 0.5,
            }
        },
        NEOX,
    ),
    "gpt-neox-serial": (
        transformers.GPTNeoXConfig,
        NARROW
        | {
            "use_parallel_residual": False,
            "attention_bias": False,
            "hidden_act": "relu",
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1000.0,
                "partial_rotary_factor": 1.0,
            },
        },
        NEOX,
    ),
    "phi": (
        transformers.PhiConfig,
        NARROW | {"num_key_value_heads": 1, "partial_rotary_factor": 0.5},
        lora(
            "q_proj",
            "k_proj",
            "v_proj",
            "dense",
            "fc1",
            "fc2",
            ranks={"v_proj": 4, "fc2": 12},
            alphas={"v_proj": 3},
        ),
    ),
    "starcoder2": (
        transformers.Starcoder2Config,
        NARROW | {"num_attention_heads": 4, "num_key_value_heads": 2, "sliding_window": 8},
        lora(
            "q_proj",
            "k_proj",
            "v_proj",
            "o_proj",
            "c_fc",
            "c_proj",
            ranks={"v_proj": 4, "c_proj": 12},
            alphas={"v_proj": 3},
        ),
    ),
}


def fill(model):
    """Random parameters that bf16 holds exactly, larger than an initialisation's."""
    for name, parameter in model.named_parameters():
        if "norm" in name or ".ln_" in name:
            values = parameter.data + 0.2 * torch.randn_like(parameter)
        elif "embed" in name or ".wte." in name or ".wpe." in name:
            values = torch.randn_like(parameter) / 4
        else:
            values = torch.randn_like(parameter) * 1.5 / parameter.shape[-1] ** 0.5
        parameter.data = values.bfloat16().float()


def strip_as_published(folder):
    """Names without prefix, and masks: as the first files of GPT-2 are."""
    path = folder / "model.safetensors"
    tensors = {key.removeprefix("transformer."): value for key, value in load_file(path).items()}
    for key in [key for key in tensors if key.endswith("attn.c_attn.weight")]:
        mask = torch.ones(1, 1, 64, 64, dtype=torch.uint8).tril()
        tensors[key.replace("c_attn.weight", "bias")] = mask
    save_file(tensors, path)


def make(name, config_class, options, adapter):
    torch.manual_seed(sum(name.encode()))
    folder = HERE / name
    options = options if "vocab_size" in options else SMALL | options
    config = config_class(**options, dtype="bfloat16")
    config._name_or_path = f"graft-golden-{name}"
    model = transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation="eager", dtype=torch.float32
    ).eval()
    fill(model)
    copy.deepcopy(model).bfloat16().save_pretrained(folder)  # the model's own angles stay fp32

    if name == "gpt2":
        strip_as_published(folder)

    input_ids = torch.randint(3, SMALL["vocab_size"], (1, NUM_TOKENS))
    golden = {"input_ids": input_ids[0].int()}
    golden["logits_base"] = model(input_ids).logits[0]
    short = getattr(config, "original_max_position_embeddings", NUM_TOKENS)
    if short < NUM_TOKENS:  # a context in which longrope's short factors hold
        golden["logits_short"] = model(input_ids[:, :short]).logits[0]

    adapted = peft.get_peft_model(
        model, peft.LoraConfig(task_type="CAUSAL_LM", init_lora_weights=False, **adapter)
    ).eval()
    for key, parameter in adapted.named_parameters():
        if "lora_" in key:
            scale = 0.7 if "lora_A" in key else 0.4
            values = torch.randn_like(parameter) * scale / parameter.shape[-1] ** 0.5
            parameter.data = values.bfloat16().float()
    golden["logits_adapter"] = adapted(input_ids).logits[0]
    adapted.peft_config["default"].base_model_name_or_path = config._name_or_path
    adapted.save_pretrained(folder / "adapter")
    (folder / "adapter" / "README.md").unlink(missing_ok=True)
    tensors = peft.get_peft_model_state_dict(adapted)
    save_file(
        {key: value.bfloat16().contiguous() for key, value in tensors.items()},
        folder / "adapter" / "adapter_model.safetensors",
    )
    save_file({key: value.contiguous() for key, value in golden.items()}, folder / "golden.safetensors")
    for key in golden:
        if key != "input_ids":
            print(name, key, "rms", golden[key].pow(2).mean().sqrt().item())


def main():
    with torch.no_grad():
        for name in sys.argv[1:] or GOLDENS:
            make(name, *GOLDENS[name])


if __name__ == "__main__":
    main()
