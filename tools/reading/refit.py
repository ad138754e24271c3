"""demo/'s adapters for the new base: each starts from its old numbers and follows the old base with the old adapter
over the texts that these wrote."""

import pathlib

import numpy as np
import torch
from safetensors.torch import save_file

import evaluation
import llama
import sampling


def _refit(options, model, old, new, folder, texts, num_tokens):
    teacher = {name: tensor.detach() for name, tensor in sampling.Lora(folder, model.device).applied(old).items()}
    teacher_leaves, new = llama.leaves(teacher), llama.leaves(new)
    lora = sampling.Lora(folder, model.device)
    for tensor in lora.tensors.values():
        tensor.requires_grad_()
    optimizer = torch.optim.AdamW(lora.tensors.values(), lr=0.0, weight_decay=0.0)
    rng = np.random.default_rng(options.seed)
    size = texts.shape[1]
    layout = ((num_tokens // size, size),)
    for step in range(options.refit_steps):
        ids = texts[rng.integers(0, len(texts), num_tokens // size)].reshape(-1).astype(np.int64)
        ids = torch.from_numpy(ids).to(model.device)
        taught = model.hidden(teacher_leaves, ids, layout).detach()
        student = lora.applied(new)
        loss = model.divergence(model.hidden(student, ids, layout), student, taught, teacher).mean()
        loss.backward()
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min(1.0, (step + 1) / 5, 1.5 * (1.0 - step / options.refit_steps))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        for tensor in new.values():
            tensor.grad = None
    return lora


def _save(lora, folder):
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.detach().to("cpu", lora.file[name].dtype).contiguous()
               for name, tensor in lora.tensors.items()}
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    (folder / "adapter_config.json").write_bytes((lora.folder / "adapter_config.json").read_bytes())


def refit_all(options, model, old, new, loras, texts, held, num_tokens, say):
    """Into out/adapters; losses on each adapter's held-out texts, which the old adapter wrote."""
    results = {}
    for name, before in loras.items():
        lora = _refit(options, model, old, new, before.folder, texts[name], num_tokens)
        folder = pathlib.Path(options.out, "adapters", name)
        _save(lora, folder)
        with torch.no_grad():
            pairs = {"old_base": old, "old_adapter": before.applied(old), "new_base": new,
                     "unfitted": before.applied(new), "new_adapter": sampling.Lora(folder, model.device).applied(new)}
        results[name] = {kind: float(np.log(evaluation.perplexity(model, weights, held[name], num_tokens)[0]))
                         for kind, weights in pairs.items()}
        say(f"{name}: loss on its held-out texts: " + ", ".join(f"{k} {v:.3f}" for k, v in results[name].items()))
    return results
