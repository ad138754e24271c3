"""Writes alora/golden.safetensors beside this file: the adapter of llama/ as an activated LoRA, by PEFT. Needs PyTorch (a
CPU suffices), transformers and PEFT; README.md says which versions made what is here.

usage: make_alora_golden.py
"""

import json
import pathlib
import shutil
import tempfile

import peft
import torch
import transformers
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
INVOCATION = [77, 31]
NUM_GENERATED = 8


def main():
    torch.manual_seed(5)
    base = transformers.AutoModelForCausalLM.from_pretrained(HERE / "llama", dtype=torch.float32)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(HERE / "llama" / "adapter", folder, dirs_exist_ok=True)
        path = pathlib.Path(folder) / "adapter_config.json"
        activated = {"alora_invocation_tokens": INVOCATION, "task_type": "CAUSAL_LM"}
        path.write_text(json.dumps(json.loads(path.read_text()) | activated))
        model = peft.PeftModel.from_pretrained(base, folder).eval()
    tokens = torch.randint(3, 256, (1, 24))
    tokens[0, 4:6] = tokens[0, 13:15] = torch.tensor(INVOCATION)  # the later one counts
    absent = tokens.clone()
    absent[0, 5] = absent[0, 14] = 9
    found = {"input_ids": tokens[0].int(), "absent_ids": absent[0].int(), "invocation": torch.tensor(INVOCATION).int()}
    with torch.no_grad():
        found["logits"] = model(input_ids=tokens).logits[0]
        found["logits_absent"] = model(input_ids=absent).logits[0]
        answer = model.generate(input_ids=tokens, max_new_tokens=NUM_GENERATED, do_sample=False, eos_token_id=None,
                                return_dict_in_generate=True, output_logits=True)
        found["generated"] = answer.sequences[0, tokens.shape[1]:].int()
        found["logits_generated"] = torch.cat(answer.logits)
    (HERE / "alora").mkdir(exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in found.items()}, HERE / "alora" / "golden.safetensors")


if __name__ == "__main__":
    main()
