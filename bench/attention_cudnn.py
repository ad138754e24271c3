#!/usr/bin/env python3
"""Attention of whole prompts beside cuDNN's, in turns: microseconds of a layer, of 32 in one CUDA graph for both.

  bench/attention_cudnn.py build/gpu/attention_cuda_bench [MORE_PROGRAMS...]

Ours reads fp32 queries and pages dealt at random; cuDNN (PyTorch's scaled_dot_product_attention) reads bf16 queries and
contiguous keys and values, of other tensors in each layer, too. Needs PyTorch and a GPU.
"""

import re
import statistics
import subprocess
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

LAYERS = 32
# As attention/cuda_bench.cu names them: heads, key heads, head size, tokens.
CASES = {"prompt mha 1 x 2048": (32, 32, 128, 2048), "prompt gqa4 1 x 2048": (32, 8, 128, 2048),
         "prompt mha 1 x 8192": (32, 32, 128, 8192), "prompt gqa4 1 x 8192": (32, 8, 128, 8192),
         "prompt mha 1 x 32768": (32, 32, 128, 32768), "prompt gqa4 1 x 32768": (32, 8, 128, 32768),
         "prompt gqa8 of 64, 1 x 2048": (32, 4, 64, 2048), "prompt mha of 96, 1 x 2048": (32, 32, 96, 2048),
         "prompt gqa2 of 256, 1 x 4096": (16, 8, 256, 4096)}


def their_us(backend, heads, kv_heads, dim, tokens):
    """Microseconds of a layer by a backend of PyTorch's scaled_dot_product_attention."""
    def draw(n):
        return [torch.randn(1, n, tokens, dim, device="cuda", dtype=torch.bfloat16) for _ in range(LAYERS)]

    layers = list(zip(draw(heads), draw(kv_heads), draw(kv_heads)))

    def attend():
        for q, k, v in layers:
            torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != kv_heads)

    with sdpa_kernel(backend):
        attend()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            attend()
    times = []
    for i in range(3 + (40 if tokens < 8192 else 8 if tokens < 32768 else 3)):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        if i >= 3 or tokens >= 32768 and i >= 1:
            times.append(begin.elapsed_time(end) * 1000 / LAYERS)
    return statistics.median(times)


def our_us(program, case):
    text = subprocess.run([program, case], capture_output=True, text=True, check=True).stdout
    line = next(line for line in text.splitlines() if line.startswith(case + " "))
    return float(re.search(r"([\d.]+) us", line)[1])


def main(programs):
    print(torch.cuda.get_device_name(), "torch", torch.__version__, "cuDNN", torch.backends.cudnn.version())
    print(f"{'case':32} {'cuDNN us':>9}" + "".join(f" {'ours':>9} {'ratio':>6}" for _ in programs))
    for case, shape in CASES.items():
        ours = [[our_us(program, case)] for program in programs]
        try:
            theirs = [their_us(SDPBackend.CUDNN_ATTENTION, *shape) for _ in range(2)]
        except RuntimeError as error:
            theirs = [float("nan")]
            print(f"cuDNN does not take {case}: {str(error)[:120]}")
        torch.cuda.empty_cache()
        for program, times in zip(programs, ours):
            times.append(our_us(program, case))
        cudnn = statistics.mean(theirs)
        row = "".join(f" {statistics.mean(t):9.1f} {cudnn / statistics.mean(t):6.3f}" for t in ours)
        print(f"{case:32} {cudnn:9.1f}{row}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
