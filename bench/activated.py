#!/usr/bin/env python3
"""What activated LoRA saves: the first token after a long conversation that an adapter has held, asked of another adapter,
as an activated one and as a plain one, in turns on one server over the demo base.

usage: activated.py BINARY [--rounds 9] [--tokens 950] [--device cpu] [--threads 0]
"""

import argparse
import json
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from local_server import free_port, wait_ready

INVOCATION = [4000, 4001, 4002]


def make_adapters(folder):
    for name in ("austen", "wodehouse"):
        for kind in ("plain", "activated"):
            path = folder / f"{kind}-{name}"
            shutil.copytree(ROOT / "demo" / "adapters" / name, path)
            if kind == "activated":
                config = path / "adapter_config.json"
                config.write_text(json.dumps(json.loads(config.read_text()) | {"alora_invocation_tokens": INVOCATION}))


def ask(url, model, prompt):
    """Milliseconds to the first token, and the prompt's cached tokens."""
    body = {"model": model, "prompt": prompt, "max_tokens": 1, "temperature": 0}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    begin = time.perf_counter()
    with urllib.request.urlopen(request, timeout=300) as reply:
        usage = json.load(reply)["usage"]
    return (time.perf_counter() - begin) * 1e3, usage["prompt_tokens_details"]["cached_tokens"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=950)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    draw = random.Random(1)
    times = {"plain": [], "activated": []}
    with tempfile.TemporaryDirectory() as folder:
        make_adapters(pathlib.Path(folder))
        url = f"http://127.0.0.1:{free_port()}"
        process = subprocess.Popen(
            [options.binary, "serve", "--model", str(ROOT / "demo" / "base"), "--adapters", folder, "--device", options.device,
             "--port", url.rsplit(":", 1)[1], "--threads", str(options.threads), "--pool-gib", "0.3", "--quiet",
             "--log-level", "error"])
        try:
            wait_ready(url, process, 120)
            for turn in range(options.rounds + 1):
                for kind in ("plain", "activated") if turn % 2 == 0 else ("activated", "plain"):
                    conversation = [draw.randrange(10, 3900) for _ in range(options.tokens)]
                    ask(url, f"{kind}-austen", conversation + INVOCATION)
                    took, cached = ask(url, f"{kind}-wodehouse", conversation + INVOCATION)
                    if turn > 0:  # the first one loads the adapters
                        times[kind].append(took)
                        assert (cached > 0) == (kind == "activated"), cached
        finally:
            process.terminate()
            process.wait(60)
    medians = {kind: statistics.median(values) for kind, values in times.items()}
    ratio = statistics.median(a / b for a, b in zip(times["activated"], times["plain"]))
    print(f"first token after {options.tokens} tokens: plain {medians['plain']:.1f} ms, activated "
          f"{medians['activated']:.1f} ms, ratio {ratio:.3f} of {options.rounds} pairs")


if __name__ == "__main__":
    main()
