#!/usr/bin/env python3
"""Graft with weights of 4 bits beside Graft in bf16 and llama.cpp with Q4_0, on one CPU, over HTTP, in turns.

  bench/random_folders.py bench/shapes/tinyllama-1.1b.json FOLDER --adapters 8
  bench/beside_llama_cpp.py FOLDER --llama-cpp LLAMA_CPP/build/bin --graft build/release/graft
  bench/beside_llama_cpp.py FOLDER                                   Graft's two alone

FOLDER has a model with random weights, and adapters of rank 16 on all modules. They become GGUF beside it, Q4_0 by
llama.cpp's own llama-quantize: its head has then 6 bits, Graft's has 16. All servers run all the time and have
--threads threads. In each round every scenario is asked of one after the other; medians of the rounds count. Wants an
idle machine and, beside llama.cpp, the Python packages gguf and numpy.
"""

import argparse
import concurrent.futures
import json
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from local_server import free_port, wait_ready

# What GGUF calls a Llama's tensors.
PARTS = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
WHOLE = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
         "lm_head.weight": "output.weight"}


def tensors_of(path):
    """(name, fp32 matrix) of a file of bf16."""
    import numpy

    data = numpy.memmap(path, dtype=numpy.uint8, mode="r")
    size = struct.unpack("<Q", bytes(data[:8]))[0]
    for name, entry in json.loads(bytes(data[8:8 + size])).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        bits = numpy.frombuffer(bytes(data[begin:end]), dtype=numpy.uint16).astype(numpy.uint32) << 16
        yield name, bits.view(numpy.float32).reshape(entry["shape"])


def gguf_name(name):
    """Of model.layers.3.mlp.up_proj.weight, and of LoRA's matrices."""
    if name in WHOLE:
        return WHOLE[name]
    layer, part = name.split(".layers.")[1].split(".", 1)
    module, end = part.rsplit(".", 1) if ".lora_" not in part else part.split(".lora_")
    ends = {"weight": "weight", "A.weight": "weight.lora_a", "B.weight": "weight.lora_b"}
    return f"blk.{layer}.{PARTS[module]}.{ends[end]}"


def write_model(folder, target):
    """In fp16, with words for all ids."""
    import gguf
    import numpy

    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(target, "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_dimension_count(config["hidden_size"] // config["num_attention_heads"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    count = config["vocab_size"]
    writer.add_tokenizer_model("llama")
    special = [("<unk>", gguf.TokenType.UNKNOWN), ("<s>", gguf.TokenType.CONTROL), ("</s>", gguf.TokenType.CONTROL)]
    special += [(f"<0x{byte:02X}>", gguf.TokenType.BYTE) for byte in range(256)]
    words = special + [(f"\u2581word{i}", gguf.TokenType.NORMAL) for i in range(len(special), count)]
    writer.add_token_list([word for word, _ in words])
    writer.add_token_scores([0.0] * count)
    writer.add_token_types([kind for _, kind in words])
    for path in sorted(folder.glob("*.safetensors")):
        for name, matrix in tensors_of(path):
            writer.add_tensor(gguf_name(name), matrix if matrix.ndim == 1 else matrix.astype(numpy.float16))
    finish(writer)


def write_adapter(folder, target):
    import gguf
    import numpy

    config = json.loads((folder / "adapter_config.json").read_text())
    writer = gguf.GGUFWriter(target, "llama")
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(config["lora_alpha"]))
    for name, matrix in tensors_of(folder / "adapter_model.safetensors"):
        writer.add_tensor(gguf_name(name), matrix.astype(numpy.float16))
    finish(writer)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_gguf(options):
    """The paths of the model and of the adapters."""
    folder = options.folder / "gguf"
    folder.mkdir(exist_ok=True)
    model = folder / "model-q4_0.gguf"
    if not model.exists():
        write_model(options.folder / "model", folder / "model-f16.gguf")
        subprocess.run([options.llama_cpp / "llama-quantize", folder / "model-f16.gguf", folder / "part.gguf", "Q4_0"],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (folder / "part.gguf").rename(model)
    adapters = []
    for source in sorted((options.folder / "adapters").iterdir())[:8]:
        adapters.append(folder / f"{source.name}.gguf")
        if not adapters[-1].exists():
            write_adapter(source, adapters[-1])
    return model, adapters


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=1200) as reply:
        return json.load(reply)


class LlamaCpp:
    name = "llama.cpp Q4_0"

    def __init__(self, options):
        model, adapters = make_gguf(options)
        port = free_port()
        self.url, self.count = f"http://127.0.0.1:{port}", len(adapters)
        tokens = (options.prompt_tokens + options.output_tokens + 16) * 8
        self.process = subprocess.Popen(
            [options.llama_cpp / "llama-server", "-m", model, "--port", str(port), "-t", str(options.threads), "-tb",
             str(options.threads), "-np", "8", "-c", str(tokens), "--lora", ",".join(map(str, adapters)),
             "--lora-init-without-apply"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait()

    def wait(self):
        for _ in range(1200):
            time.sleep(0.5)
            try:
                with urllib.request.urlopen(self.url + "/health", timeout=5):
                    return
            except OSError:
                if self.process.poll() is not None:
                    sys.exit(f"llama-server ended with {self.process.returncode}")
        sys.exit("llama-server does not become ready")

    def ask(self, adapter, prompt, tokens):
        scales = [{"id": i, "scale": 1.0 if i == adapter else 0.0} for i in range(self.count)]
        reply = post(self.url + "/completion", {"prompt": prompt, "n_predict": tokens, "ignore_eos": True,
                                                "temperature": 0, "cache_prompt": False, "lora": scales})
        return reply["tokens_predicted"]


class Graft:
    def __init__(self, options, weights):
        port = free_port()
        self.name, self.url = f"Graft {weights}", f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [options.graft, "serve", "--model", options.folder / "model", "--adapters", options.folder / "adapters",
             "--model-name", "base", "--port", str(port), "--threads", str(options.threads), "--weights", weights],
            stderr=subprocess.DEVNULL)
        wait_ready(self.url, self.process, 600)

    def ask(self, adapter, prompt, tokens):
        reply = post(self.url + "/v1/completions", {
            "model": "base" if adapter is None else f"a{adapter}", "prompt": prompt, "max_tokens": tokens,
            "temperature": 0, "ignore_eos": True})
        return reply["usage"]["completion_tokens"]


def scenarios():
    """By name: whom each of the requests at once asks."""
    return {"base, batch 1": [None], "one adapter, batch 1": [0], "base, batch 8": [None] * 8,
            "one adapter, batch 8": [0] * 8, "eight adapters, batch 8": list(range(8))}


def rate(server, adapters, options, seed):
    """Tokens of answers per second, of all requests from their begin to the last one's end."""
    rng = random.Random(seed)
    prompts = [[rng.randrange(300, 8000) for _ in range(options.prompt_tokens)] for _ in adapters]
    with concurrent.futures.ThreadPoolExecutor(len(adapters)) as pool:
        begin = time.monotonic()
        counts = list(pool.map(lambda a, p: server.ask(a, p, options.output_tokens), adapters, prompts))
        seconds = time.monotonic() - begin
    if counts != [options.output_tokens] * len(adapters):
        sys.exit(f"{server.name} answered with {counts} tokens")
    return sum(counts) / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--llama-cpp", type=pathlib.Path, help="folder of llama-server and llama-quantize")
    parser.add_argument("--graft", default=str(ROOT / "build/release/graft"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt-tokens", type=int, default=32)
    parser.add_argument("--output-tokens", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    options = parser.parse_args()
    servers = []
    rates = {}
    try:
        servers += [Graft(options, "int4"), Graft(options, "plain")]
        if options.llama_cpp is not None:
            servers.append(LlamaCpp(options))
        for turn in range(-1, options.rounds):  # the first one warms up
            for name, adapters in scenarios().items():
                for server in servers if turn % 2 == 0 else servers[::-1]:
                    value = rate(server, adapters, options, turn)
                    if turn >= 0:
                        rates.setdefault(name, {}).setdefault(server.name, []).append(value)
    finally:
        for server in servers:
            server.process.terminate()
            server.process.wait()
    print(f"| tokens/s, {options.threads} threads; in brackets int4 over it | "
          + " | ".join(server.name for server in servers) + " |")
    print("|---" * (len(servers) + 1) + "|")
    for name, of_one in rates.items():
        medians = [statistics.median(of_one[server.name]) for server in servers]
        print(f"| {name} | " + " | ".join(f"{value:.2f} ({medians[0] / value:.2f})" for value in medians) + " |")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rates) + "\n")


if __name__ == "__main__":
    main()
