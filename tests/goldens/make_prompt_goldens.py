"""Writes prompt- and prefix-tuning adapters of some golden models beside this file, and the logits
that HF and PEFT give with them. Needs PyTorch (a CPU suffices), transformers and PEFT; README.md says
which versions made what is here.

usage: make_prompt_goldens.py [MODEL ...]
"""

import pathlib
import sys

import peft
import torch
import transformers
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
NUM_TOKENS = 12
NUM_DRAWN = 6
NUM_VIRTUAL = 5

# Grouped heads, heads wider than hidden / heads, norms of heads, windows, rotation of a part of a
# head, of neighbours, embeddings that are scaled, learned positions.
MODELS = ["llama", "qwen3", "mistral-window", "phi3-partial-rotary", "gemma2", "gemma3", "granite", "glm", "gpt2"]
# Of these only prompts, or only prefixes: the others meet nothing that another model's do not.
KINDS = {"granite": ["prompt"], "glm": ["prefix"]}


def load(name):
    return transformers.AutoModelForCausalLM.from_pretrained(
        HERE / name, attn_implementation="eager", dtype=torch.float32
    ).eval()


def config_of(kind):
    options = {"task_type": "CAUSAL_LM", "num_virtual_tokens": NUM_VIRTUAL}
    if kind == "prompt":
        return peft.PromptTuningConfig(**options)
    if kind == "p-tuning":
        return peft.PromptEncoderConfig(**options, encoder_hidden_size=32)
    return peft.PrefixTuningConfig(**options)


def embeddings_size(model):
    return model.get_input_embeddings().weight.std()


def draw(model, input_ids):
    """Greedy, each token by a forward of all before it: what generate() gives where its caches are
    those of the model's forward (for Phi-3 with a window and prompt tuning they are not)."""
    for _ in range(NUM_DRAWN):
        token = model(input_ids).logits[:, -1:].argmax(-1)
        input_ids = torch.cat([input_ids, token], 1)
    return input_ids[0][NUM_TOKENS:].int()


def make(name, kind):
    torch.manual_seed(sum((name + kind).encode()))
    folder = HERE / "prompts" / f"{name}-{kind}"
    model = load(name)
    tuned = peft.get_peft_model(model, config_of(kind)).eval()
    for key, parameter in tuned.named_parameters():
        if "prompt_encoder" in key:
            scale = 0.5 if kind == "prefix" else embeddings_size(model)
            if "embedding" not in key:
                scale = 1.5 / parameter.shape[-1] ** 0.5
            parameter.data = (torch.randn_like(parameter) * scale).bfloat16().float()
    tuned.peft_config["default"].base_model_name_or_path = f"graft-golden-{name}"
    tuned.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)

    # As a server meets it: from its files.
    tuned = peft.PeftModel.from_pretrained(load(name), folder).eval()
    input_ids = torch.randint(3, tuned.config.vocab_size, (1, NUM_TOKENS))
    golden = {"input_ids": input_ids[0].int()}
    golden["logits"] = tuned(input_ids).logits[0][-NUM_TOKENS:]
    golden["drawn"] = draw(tuned, input_ids)
    # With LoRA on all rows: PEFT takes one adapter at a time, so LoRA is merged first.
    merged = peft.PeftModel.from_pretrained(load(name), HERE / name / "adapter").merge_and_unload()
    both = peft.PeftModel.from_pretrained(merged, folder).eval()
    golden["logits_with_lora"] = both(input_ids).logits[0][-NUM_TOKENS:]
    golden["drawn_with_lora"] = draw(both, input_ids)
    save_file({key: value.contiguous() for key, value in golden.items()}, folder / "golden.safetensors")
    print(name, kind, "rms", golden["logits"].pow(2).mean().sqrt().item())


def main():
    with torch.no_grad():
        for name in sys.argv[1:] or MODELS:
            kinds = KINDS.get(name, ["prompt", "prefix"])
            for kind in kinds + (["p-tuning"] if name == "llama" else []):
                make(name, kind)


if __name__ == "__main__":
    main()
