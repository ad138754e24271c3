"""Small quantised models that the libraries themselves wrote, for the kinds of codes that the folders of README.md do
not have. Each has dequantised.json: the SHA-256 of every dequantised tensor, as its library computes it.

Wants torch, transformers, bitsandbytes 0.50.2, compressed-tensors 0.20.0 and gptqmodel 7.7.0; all run on a CPU. The
random numbers are torch's, so another version may write other files. Writes into the current folder."""

import hashlib
import json
import os

import torch
from bitsandbytes import functional as bnb
from compressed_tensors.compressors import ModelCompressor
from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
from compressed_tensors.quantization import (QuantizationArgs, QuantizationConfig, QuantizationScheme,
                                             apply_quantization_config)
from compressed_tensors.quantization.utils import calculate_qparams
from gptqmodel.nn_modules.qlinear.torch import TorchLinear
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM

BASE = "base"  # in the temporary folder of whoever runs it; not kept


def make_base():
    torch.manual_seed(0)
    config = LlamaConfig(hidden_size=128, intermediate_size=256, num_hidden_layers=1, num_attention_heads=4,
                         num_key_value_heads=2, head_dim=32, vocab_size=64, max_position_embeddings=256,
                         tie_word_embeddings=True, initializer_range=0.05)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(BASE)


def write_hashes(folder, tensors):
    def row(tensor):
        data = tensor.contiguous().view(torch.uint8).numpy().tobytes()
        return {"dtype": str(tensor.dtype)[6:], "shape": list(tensor.shape), "sha256": hashlib.sha256(data).hexdigest()}
    rows = {name: row(tensor) for name, tensor in sorted(tensors.items())}
    with open(f"{folder}/dequantised.json", "w") as file:
        json.dump(rows, file, indent=0)


def write_nf4(folder, double, skipped, dtype):
    asked = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=double,
                               bnb_4bit_compute_dtype=dtype, llm_int8_skip_modules=skipped)
    model = AutoModelForCausalLM.from_pretrained(BASE, quantization_config=asked, device_map="cpu", dtype=dtype)
    model.save_pretrained(folder)
    files = load_file(f"{folder}/model.safetensors")
    dequantised = {}
    for name, codes in files.items():
        if not name.endswith(".weight") or codes.dtype != torch.uint8:
            continue
        parts = {other[len(name) + 1:]: tensor for other, tensor in files.items() if other.startswith(name + ".")}
        dequantised[name] = bnb.dequantize_4bit(codes, bnb.QuantState.from_dict(parts, device="cpu"))
    write_hashes(folder, dequantised)


def grouped(weight, args):
    rows, columns = weight.shape
    return weight.reshape(rows, columns // (args.group_size or columns), -1)


def write_compressed(folder, groups, ignored):
    model = AutoModelForCausalLM.from_pretrained(BASE, dtype=torch.bfloat16)
    schemes = {f"group_{i}": QuantizationScheme(targets=targets, weights=args)
               for i, (targets, args) in enumerate(groups)}
    apply_quantization_config(model, QuantizationConfig(config_groups=schemes, ignore=ignored, format="pack-quantized",
                                                        quantization_status="initialized"))
    scheme_of = {}
    for name, module in model.named_modules():
        if not hasattr(module, "weight_scale"):
            continue
        args = module.quantization_scheme.weights
        scheme_of[name] = module.quantization_scheme
        values = grouped(module.weight.data.float(), args)
        scale, zero = calculate_qparams(values.amin(2), values.amax(2), args)
        module.weight_scale.data.copy_(scale.reshape(module.weight_scale.shape))
        if hasattr(module, "weight_zero_point"):
            module.weight_zero_point.data.copy_(zero.reshape(module.weight_zero_point.shape))
    compressor = ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    model.save_pretrained(folder)
    compressor.update_config(folder)
    hash_compressed(folder, scheme_of.get)


def hash_compressed(folder, scheme_of):
    """By what the library makes of the file: fake_quantize, which never saw it, has zeros of both signs."""
    files = load_file(f"{folder}/model.safetensors")
    dequantised = {}
    for name in files:
        module = name.removesuffix(".weight_packed")
        if module == name:
            continue
        parts = {other[len(module) + 1:]: tensor for other, tensor in files.items() if other.startswith(module + ".")}
        weight = PackedQuantizationCompressor.decompress(parts, scheme_of(module))["weight"]
        dequantised[module + ".weight"] = weight
    write_hashes(folder, dequantised)


def gptq_parts(weight, bits, group, symmetric):
    """Codes of a weight as GPTQModel packs them, and what it dequantises them to."""
    rows, columns = weight.shape
    top = 2 ** bits - 1
    values = weight.float().reshape(rows, columns // group, group)
    if symmetric:
        scale = values.abs().amax(2) * 2 / top
        zero = torch.full_like(scale, 2 ** (bits - 1))
    else:
        low, high = values.amin(2).clamp(max=0), values.amax(2).clamp(min=0)
        scale = (high - low) / top
        zero = (-low / scale).round()
    scale = scale.half().float()
    index = torch.arange(columns) // group
    codes = (weight.float() / scale[:, index] + zero[:, index]).round().clamp(0, top)
    linear = torch.nn.Linear(columns, rows, bias=False)
    linear.weight.data = (codes - zero[:, index]) * scale[:, index]
    packed = TorchLinear(bits=bits, group_size=group, sym=symmetric, desc_act=False, in_features=columns,
                         out_features=rows, bias=False)
    packed.pack(linear, scale, zero, index.int())
    packed.post_init()
    return {key: tensor.clone() for key, tensor in packed.state_dict().items()}, packed.dequantize_weight().T.half()


def as_v1(zeros, bits):
    """Every zero point less one, subtracted from whole words, as GPTQModel saves checkpoint_format gptq."""
    words = zeros.to(torch.int64) - sum(1 << (bits * i) for i in range(32 // bits))
    words &= 0xffffffff
    return torch.where(words >= 2 ** 31, words - 2 ** 32, words).int()


def write_gptq(folder, layout, symmetric, config, schemes):
    """`schemes`: of a module's name its (bits, group), or none where it stays as it is."""
    model = AutoModelForCausalLM.from_pretrained(BASE, dtype=torch.float16)
    tensors, dequantised = {}, {}
    for name, module in model.named_modules():
        scheme = schemes(name) if isinstance(module, torch.nn.Linear) and name != "lm_head" else None
        if scheme is None:
            continue
        parts, numbers = gptq_parts(module.weight.data, *scheme, symmetric)
        if layout == "gptq":
            parts["qzeros"] = as_v1(parts["qzeros"], scheme[0])
        tensors.update({f"{name}.{key}": tensor.contiguous() for key, tensor in parts.items()})
        dequantised[name + ".weight"] = numbers
    for name, tensor in model.state_dict().items():
        if name not in dequantised and name != "lm_head.weight":
            tensors[name] = tensor.contiguous()
    os.makedirs(folder, exist_ok=True)
    save_file(tensors, f"{folder}/model.safetensors", {"format": "pt"})
    with open(f"{BASE}/config.json") as file:
        base = json.load(file)
    base["dtype"] = "float16"
    base["quantization_config"] = {"quant_method": "gptq", "sym": symmetric, "desc_act": False,
                                   "checkpoint_format": layout, "lm_head": False, **config}
    with open(f"{folder}/config.json", "w") as file:
        json.dump(base, file, indent=1)
    write_hashes(folder, dequantised)


def main():
    make_base()
    write_nf4("nf4_single_skip", double=False, skipped=["lm_head", "model.layers.0.self_attn"], dtype=torch.bfloat16)
    write_nf4("nf4_fp16", double=True, skipped=None, dtype=torch.float16)
    four = QuantizationArgs(num_bits=4, type="int", strategy="group", group_size=32, symmetric=False)
    eight = QuantizationArgs(num_bits=8, type="int", strategy="channel", symmetric=True)
    write_compressed("w4a16_w8a16", [(["re:.*self_attn.*"], four), (["Linear"], eight)],
                     ["lm_head", "re:.*down_proj"])
    write_gptq("gptq4_v2", "gptq_v2", False, {"bits": 4, "group_size": 32}, lambda name: (4, 32))
    write_gptq("gptq8", "gptq", True, {"bits": 8, "group_size": -1}, lambda name: (8, 256 if "down" in name else 128))
    dynamic = {"-:.*down_proj": {}, r"+:.*\.self_attn\..*": {"bits": 8, "group_size": 64}}
    write_gptq("gptq_dynamic", "gptq", True, {"bits": 4, "group_size": 32, "dynamic": dynamic},
               lambda name: None if "down_proj" in name else (8, 64) if "self_attn" in name else (4, 32))


if __name__ == "__main__":
    main()
