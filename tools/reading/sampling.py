"""Text written by demo/'s old base and by its adapters, from which the new ones are kept like the old."""

import json
import pathlib
import re

import torch
from safetensors.torch import load_file

import llama
from llama import HEAD, HEADS, KV_HEADS, LAYERS

MODULES = {part.split(".")[1]: name for name, part in llama.STACKS.items() if name in llama.MATRICES}


class Lora:
    """An adapter of demo/: its tensors by PEFT's names, and what each pair is scaled by."""

    def __init__(self, folder, device):
        self.folder = pathlib.Path(folder)
        self.config = json.loads((self.folder / "adapter_config.json").read_text())
        self.file = load_file(self.folder / "adapter_model.safetensors")
        self.tensors = {name: tensor.float().to(device) for name, tensor in self.file.items()}

    def _pattern(self, key, module, default):
        for pattern, value in self.config[key].items():
            if re.match(rf"(.*\.)?({pattern})$", module):
                return value
        return default

    def scale(self, module):
        rank = self._pattern("rank_pattern", module, self.config["r"])
        alpha = self._pattern("alpha_pattern", module, self.config["lora_alpha"])
        return alpha / (rank ** 0.5 if self.config["use_rslora"] else rank)

    def applied(self, weights):
        """The base's weights with the adapter in them; gradients go to self.tensors."""
        deltas = {name: [None] * LAYERS for name in llama.MATRICES}
        for key, a in self.tensors.items():
            if "lora_A" not in key:
                continue
            module = key.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
            layer, part = re.match(r"model\.layers\.(\d+)\.\w+\.(\w+)", module).groups()
            b = self.tensors[key.replace("lora_A", "lora_B")]
            deltas[MODULES[part]][int(layer)] = self.scale(module) * (b @ a)
        out = dict(weights)
        for name, rows in deltas.items():
            if any(row is not None for row in rows):
                zero = torch.zeros_like(weights[name][0])
                out[name] = weights[name] + torch.stack([zero if row is None else row for row in rows])
        return out


@torch.no_grad()
def sample(weights, count, num_tokens, device, seed):
    """[count, num_tokens] of what the model writes from BOS on, at temperature 1."""
    generator = torch.Generator(device).manual_seed(seed)
    w = {name: tensor.bfloat16() for name, tensor in weights.items()}
    cache = torch.zeros(2, LAYERS, count * KV_HEADS, num_tokens, HEAD, dtype=torch.bfloat16, device=device)
    ids = torch.zeros(count, num_tokens, dtype=torch.int64, device=device)
    rates = llama.THETA ** (-torch.arange(0, HEAD, 2, device=device).double() / HEAD)
    noise = torch.empty(count, llama.VOCAB, device=device)
    for t in range(num_tokens - 1):
        cos, sin = (f(t * rates).float()[None, None] for f in (torch.cos, torch.sin))
        x = w["embed"][ids[:, t]].float()
        for i in range(LAYERS):
            q, k, v = llama.before_attention(x, w["norm1"][i], w["q"][i], w["k"][i], w["v"][i], cos, sin)
            cache[0, i, :, t] = k.reshape(-1, HEAD)
            cache[1, i, :, t] = v.reshape(-1, HEAD)
            q = q.reshape(count * KV_HEADS, HEADS // KV_HEADS, HEAD)
            scores = torch.bmm(q, cache[0, i, :, :t + 1].mT).float() * HEAD ** -0.5
            attended = torch.bmm(scores.softmax(-1).bfloat16(), cache[1, i, :, :t + 1])
            x = llama.after_attention(x, attended.reshape(count, HEADS * HEAD), w["o"][i], w["norm2"][i],
                                      w["gate"][i], w["up"][i], w["down"][i])
        logits = (llama.normed(x, w["norm"]) @ w["embed"].T).float()
        ids[:, t + 1] = (logits.softmax(-1) / noise.exponential_(generator=generator)).argmax(-1)
    return ids.to("cpu", torch.int32).numpy().astype("uint16")
