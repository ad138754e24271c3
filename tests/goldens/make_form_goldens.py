"""Writes forms/ beside this file: adapters as other programs save them, each with what PEFT writes of
the same matrices. Needs PyTorch (a CPU suffices), safetensors and the goldens of llama/.

usage: make_form_goldens.py
"""

import json
import os
import pathlib
import pickle
import shutil
import zipfile

import torch
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent
OUT = HERE / "forms"
CORPUS = HERE.parent / "fuzz_corpus" / "torch_weights_fuzz"
MLX_RANK = 4
MLX_SCALE = 2.5


def write_llama():
    """PEFT's own adapter of llama/ as it saves it with safe_serialization=False."""
    folder = OUT / "llama-bin"
    folder.mkdir()
    shutil.copy(HERE / "llama" / "adapter" / "adapter_config.json", folder)
    torch.save(load_file(HERE / "llama" / "adapter" / "adapter_model.safetensors"), folder / "adapter_model.bin")


def small():
    generator = torch.Generator().manual_seed(3)
    name = "base_model.model.model.layers.0.self_attn.{}.lora_{}.weight"
    tensors = {}
    for module, dtype in [("q_proj", torch.float32), ("v_proj", torch.bfloat16), ("k_proj", torch.float16)]:
        for side in "AB":
            tensors[name.format(module, side)] = torch.randn(4, 6, generator=generator).to(dtype)
    return tensors


def strided(tensor):
    """The same numbers, backwards in memory, behind others and with gaps between them."""
    wide = torch.full((6, 9), 7.0, dtype=tensor.dtype)
    wide[:, 1:9:2] = tensor.t()
    return wide[:, 1:9:2].t()


class Module(torch.nn.Module):
    def __init__(self, tensors):
        super().__init__()
        self.whole = torch.nn.Parameter(tensors)


class Runs:
    def __reduce__(self):
        return os.system, ("true",)


def write_small():
    tensors = small()
    save_file(tensors, OUT / "small.safetensors", metadata={"format": "pt"})
    torch.save(tensors, CORPUS / "plain")
    torch.save({name: strided(tensor) for name, tensor in tensors.items()}, CORPUS / "strided")
    # One storage under two names, and parameters.
    shared = torch.cat([tensor.float().flatten() for tensor in tensors.values()])
    views = {f"{i}": shared[24 * i : 24 * i + 24].view(4, 6) for i in range(6)}
    views["again"] = views["2"]
    torch.save(views, CORPUS / "shared")
    save_file({name: view.clone() for name, view in views.items()}, OUT / "shared.safetensors",
              metadata={"format": "pt"})
    torch.save({"x": torch.nn.Parameter(torch.ones(2, 3)), "none": torch.ones(0, 3), "one": torch.tensor(5.0)},
               CORPUS / "parameter")
    torch.save(Module(torch.ones(2, 3)).state_dict(), CORPUS / "module")
    torch.save({"x": torch.ones(2, dtype=torch.float64), "n": torch.arange(3)}, CORPUS / "other_dtypes")


def write_refused():
    torch.save(small(), CORPUS / "legacy", _use_new_zipfile_serialization=False)
    torch.save({"x": torch.ones(2), "epoch": 3}, CORPUS / "number")
    torch.save([torch.ones(2)], CORPUS / "list")
    torch.save(Module(torch.ones(2)), CORPUS / "object")
    torch.save({"x": torch.ones(2, dtype=torch.float8_e4m3fn)}, CORPUS / "fp8")
    torch.save({"x": Runs()}, CORPUS / "runs")
    with zipfile.ZipFile(CORPUS / "plain") as plain, zipfile.ZipFile(
        CORPUS / "compressed", "w", zipfile.ZIP_DEFLATED
    ) as compressed:
        for entry in plain.infolist():
            compressed.writestr(entry.filename, plain.read(entry))
    with zipfile.ZipFile(CORPUS / "protocol4", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"x": 1}, protocol=4))


def write_mlx():
    """mlx-lm's folder by its documentation, and PEFT's of the same matrices."""
    generator = torch.Generator().manual_seed(4)
    config = json.loads((HERE / "llama" / "config.json").read_text())
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    head = hidden // config["num_attention_heads"]
    kv = head * config["num_key_value_heads"]
    sizes = {
        "self_attn.q_proj": (hidden, hidden),
        "self_attn.v_proj": (hidden, kv),
        "mlp.down_proj": (wide, hidden),
    }
    mlx, peft = {}, {}
    for layer in range(config["num_hidden_layers"]):
        for module, (columns, rows) in sizes.items():
            path = f"model.layers.{layer}.{module}"
            a = 0.1 * torch.randn(columns, MLX_RANK, generator=generator)
            b = 0.1 * torch.randn(MLX_RANK, rows, generator=generator)
            mlx[path + ".lora_a"], mlx[path + ".lora_b"] = a, b
            peft[f"base_model.model.{path}.lora_A.weight"] = a.t().contiguous()
            peft[f"base_model.model.{path}.lora_B.weight"] = b.t().contiguous()
    (OUT / "mlx").mkdir()
    (OUT / "mlx-as-peft").mkdir()
    save_file(mlx, OUT / "mlx" / "adapters.safetensors")
    save_file(peft, OUT / "mlx-as-peft" / "adapter_model.safetensors", metadata={"format": "pt"})
    (OUT / "mlx" / "adapter_config.json").write_text(json.dumps({
        "adapter_path": "adapters", "batch_size": 4, "data": "data", "fine_tune_type": "lora",
        "grad_checkpoint": False, "iters": 1000, "learning_rate": 1e-05,
        "lora_parameters": {"rank": MLX_RANK, "dropout": 0.0, "scale": MLX_SCALE},
        "model": "graft-golden-llama", "num_layers": 16, "optimizer": "adam", "train": True, "seed": 0,
    }, indent=4) + "\n")
    (OUT / "mlx-as-peft" / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": "graft-golden-llama",
        "r": MLX_RANK, "lora_alpha": MLX_SCALE * MLX_RANK, "target_modules": ["q_proj", "v_proj", "down_proj"],
    }, indent=2) + "\n")


for place in (OUT, CORPUS):
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
write_llama()
write_small()
write_refused()
write_mlx()
