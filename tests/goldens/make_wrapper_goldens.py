"""Writes the goldens of wrappers beside this file: all, or those that are named. They are models that see, with
towers as small as can be, asked for text alone. Needs what make_family_goldens.py needs.

usage: make_wrapper_goldens.py [NAME ...]
"""

import copy
import json
import pathlib
import sys

import peft
import torch
import transformers
from make_family_goldens import APART, fill
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent
NUM_TOKENS = 24

SMALL = {
    "vocab_size": 128,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 2,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
TOWER = {
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "image_size": 4,
    "patch_size": 4,
}
QWEN_TOWER = {
    "depth": 1,
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_heads": 1,
    "patch_size": 2,
    "out_hidden_size": 32,
}
TOKENS = {"image_token_index": 100}
QWEN_TOKENS = {"image_token_id": 100, "video_token_id": 101, "vision_start_token_id": 102, "vision_end_token_id": 103}
# As Unsloth writes it.
REGEX = (
    r"(?:.*?(?:language|text).*?(?:self_attn|attention|attn|mlp|feed_forward|ffn|dense).*?"
    r"(?:q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj).*?)|"
    r"(?:\bmodel\.layers\.[\d]{1,}\.(?:self_attn|attention|attn|mlp|feed_forward|ffn|dense)\."
    r"(?:(?:q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)))"
)
BY_REGEX = APART | {"target_modules": REGEX}


def rope(sections, **more):
    return {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": sections} | more


# Folder: a config, an adapter.
GOLDENS = {
    "gemma3-wrapper": (
        lambda: transformers.Gemma3Config(
            text_config=transformers.Gemma3TextConfig(
                **SMALL, head_dim=16, query_pre_attn_scalar=20, sliding_window=8,
                layer_types=["sliding_attention", "full_attention"],
            ),
            vision_config=transformers.SiglipVisionConfig(**TOWER),
            boi_token_index=101, eoi_token_index=102, mm_tokens_per_image=1, **TOKENS,
        ),
        BY_REGEX,
    ),
    "mistral3": (
        lambda: transformers.Mistral3Config(
            text_config=transformers.MistralConfig(**SMALL, head_dim=12, sliding_window=None),
            vision_config=transformers.PixtralVisionConfig(**TOWER, head_dim=8),
            tie_word_embeddings=False, **TOKENS,
        ),
        APART | {"exclude_modules": ".*vision.*"},
    ),
    "ministral3": (
        lambda: transformers.Mistral3Config(
            text_config=transformers.Ministral3Config(
                **SMALL, head_dim=8,
                rope_parameters={
                    "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                    "original_max_position_embeddings": 8, "max_position_embeddings": 64,
                    "beta_fast": 2.0, "beta_slow": 0.25, "mscale": 1.0, "mscale_all_dim": 1.0,
                    "llama_4_scaling_beta": 0.7,
                },
            ),
            vision_config=transformers.PixtralVisionConfig(**TOWER, head_dim=8),
            **TOKENS,
        ),
        BY_REGEX,
    ),
    # Its config.json is written flat, as it is published.
    "qwen2-vl": (
        lambda: transformers.Qwen2VLConfig(
            text_config=SMALL | {"rope_parameters": rope([1, 1, 2])},
            vision_config={
                "depth": 1, "embed_dim": 8, "hidden_size": 32, "num_heads": 1, "mlp_ratio": 1, "patch_size": 2
            },
            **QWEN_TOKENS,
        ),
        APART,
    ),
    # The tower's MLP has the names of the text's, so this adapter is one of both.
    "qwen25-vl": (
        lambda: transformers.Qwen2_5_VLConfig(
            text_config=SMALL | {"rope_parameters": rope([1, 1, 2])}, vision_config=QWEN_TOWER, **QWEN_TOKENS
        ),
        APART,
    ),
    "qwen3-vl": (
        lambda: transformers.Qwen3VLConfig(
            text_config=SMALL | {"head_dim": 12, "rope_parameters": rope([2, 2, 2], mrope_interleaved=True)},
            vision_config=QWEN_TOWER | {"num_position_embeddings": 4, "deepstack_visual_indexes": [0]},
            tie_word_embeddings=True, **QWEN_TOKENS,
        ),
        BY_REGEX,
    ),
    # Tower and text share q_proj, k_proj and v_proj.
    "llava": (
        lambda: transformers.LlavaConfig(
            text_config=transformers.LlamaConfig(**SMALL),
            vision_config=transformers.CLIPVisionConfig(**TOWER, projection_dim=8), **TOKENS,
        ),
        APART,
    ),
    "llava-next": (
        lambda: transformers.LlavaNextConfig(
            text_config=transformers.MistralConfig(**SMALL, sliding_window=8),
            vision_config=transformers.CLIPVisionConfig(**TOWER, projection_dim=8), **TOKENS,
        ),
        BY_REGEX,
    ),
    "idefics3": (
        lambda: transformers.Idefics3Config(
            text_config=transformers.LlamaConfig(**SMALL), vision_config=TOWER, image_token_id=100
        ),
        APART | {"target_modules": r".*text_model.*_proj"},
    ),
    "smolvlm": (
        lambda: transformers.SmolVLMConfig(
            text_config=transformers.LlamaConfig(**SMALL), vision_config=TOWER, image_token_id=100
        ),
        BY_REGEX,
    ),
}


def flatten(path):
    config = json.loads(path.read_text())
    text = config.pop("text_config")
    for key in ("model_type", "dtype", "layer_types"):
        text.pop(key, None)
    parameters = text.pop("rope_parameters")
    text["rope_theta"] = parameters["rope_theta"]
    text["rope_scaling"] = {"type": "mrope", "mrope_section": parameters["mrope_section"]}
    path.write_text(json.dumps(config | text, indent=2, sort_keys=True) + "\n")


def make(name, make_config, lora):
    torch.manual_seed(sum(name.encode()))
    folder = HERE / name
    config = make_config()
    config.dtype = "bfloat16"
    config._name_or_path = f"graft-golden-{name}"
    model = transformers.AutoModelForImageTextToText.from_config(
        config, attn_implementation="eager", dtype=torch.float32
    ).eval()
    fill(model)
    copy.deepcopy(model).bfloat16().save_pretrained(folder)
    if name == "qwen2-vl":
        flatten(folder / "config.json")

    input_ids = torch.randint(3, 100, (1, NUM_TOKENS))
    golden = {"input_ids": input_ids[0].int()}
    golden["logits_base"] = model(input_ids).logits[0]
    again = transformers.AutoModelForImageTextToText.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32
    )
    difference = (again.eval()(input_ids).logits[0] - golden["logits_base"]).abs().max().item()
    assert difference < 1e-5, difference

    adapted = peft.get_peft_model(model, peft.LoraConfig(init_lora_weights=False, **lora)).eval()
    for key, parameter in adapted.named_parameters():
        if "lora_" in key:
            scale = 0.7 if "lora_A" in key else 0.4
            values = torch.randn_like(parameter) * scale / parameter.shape[-1] ** 0.5
            parameter.data = values.bfloat16().float()
    golden["logits_adapter"] = adapted(input_ids).logits[0]
    adapted.peft_config["default"].base_model_name_or_path = config._name_or_path
    adapted.save_pretrained(folder / "adapter")
    (folder / "adapter" / "README.md").unlink(missing_ok=True)
    path = folder / "adapter" / "adapter_model.safetensors"
    save_file({key: value.bfloat16() for key, value in load_file(path).items()}, path)
    save_file({key: value.contiguous() for key, value in golden.items()}, folder / "golden.safetensors")
    towers = [key for key in load_file(path) if "language_model" not in key and "text_model" not in key]
    for key in golden:
        if key != "input_ids":
            print(name, key, "rms", golden[key].pow(2).mean().sqrt().item(), "tower tensors", len(towers))


def main():
    with torch.no_grad():
        for name in sys.argv[1:] or GOLDENS:
            make(name, *GOLDENS[name])


if __name__ == "__main__":
    main()
