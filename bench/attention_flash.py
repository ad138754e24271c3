#!/usr/bin/env python3
"""Attention of whole prompts beside FlashAttention-2, in turns: TFLOP/s of a layer, of 32 in one CUDA graph for both.

  [GRAFT_GPU_FAMILY=ampere] bench/attention_flash.py build/gpu/attention_cuda_bench [MORE_PROGRAMS...]

The kernels without Hopper's instructions are measured so: GRAFT_GPU_FAMILY makes a better card choose as an older one
would. Ours reads fp32 queries and pages dealt at random; PyTorch's flash backend reads bf16 queries and contiguous keys
and values, of other tensors in each layer, too. A FLOP is counted for the pairs that are seen alone. Needs PyTorch and
a GPU. The last lines are of decode, by sequences of 512 positions, ours alone.
"""

import os
import re
import statistics
import subprocess
import sys

import torch
from attention_cudnn import our_us, their_us
from torch.nn.attention import SDPBackend

# As attention/cuda_bench.cu names them: heads, key heads, head size, tokens.
PROMPTS = {"prompt gqa4 1 x 2048": (32, 8, 128, 2048), "prompt gqa4 1 x 8192": (32, 8, 128, 8192),
           "prompt gqa4 1 x 32768": (32, 8, 128, 32768), "prompt mha 1 x 2048": (32, 32, 128, 2048),
           "prompt mha 1 x 8192": (32, 32, 128, 8192), "prompt gqa8 of 64, 1 x 2048": (32, 4, 64, 2048),
           "prompt mha of 96, 1 x 2048": (32, 32, 96, 2048), "prompt gqa2 of 256, 1 x 4096": (16, 8, 256, 4096)}


def flash_us(shape):
    try:
        return their_us(SDPBackend.FLASH_ATTENTION, *shape)
    except RuntimeError as error:
        print(f"the flash backend does not take {shape}: {str(error)[:120]}")
        return float("nan")


def tera_flops(shape, us):
    heads, _, dim, tokens = shape
    return 2 * heads * dim * tokens * (tokens + 1) / us * 1e-6


def main(programs):
    family = os.environ.get("GRAFT_GPU_FAMILY", "its own")
    print(f"{torch.cuda.get_device_name()}, family {family}, torch {torch.__version__}")
    print(f"{'case':32} {'FA-2 TF/s':>9}" + "".join(f" {'ours TF/s':>9} {'ratio':>6}" for _ in programs))
    for case, shape in PROMPTS.items():
        ours = [[our_us(program, case)] for program in programs]
        theirs = statistics.mean(flash_us(shape) for _ in range(2))
        torch.cuda.empty_cache()
        row = ""
        for program, times in zip(programs, ours):
            us = statistics.mean([*times, our_us(program, case)])
            row += f" {tera_flops(shape, us):9.1f} {theirs / us:6.3f}"
        print(f"{case:32} {tera_flops(shape, theirs):9.1f}{row}", flush=True)
    for program in programs:
        text = subprocess.run([program, "decode gqa4"], capture_output=True, text=True, check=True).stdout
        print("".join(line + "\n" for line in text.splitlines() if re.search(r"gqa4 \d+ x 512 ", line)), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
