#!/usr/bin/env python3
"""What one build of `graft serve` answers, with every log-probability to its last bit: for bench/same_bits.sh.

  bench/same_bits.py build/release/graft ANSWERS.json --adapters FOLDER -- --dtype fp32

Asks the demo's base, each adapter in the folder, and a sum of two, all at once and then again one after the other, so
that batches mix them and prompts are cut into chunks. Greedy answers and seeded ones. A pass's answers must be equal:
a row does not know its batch. Python alone.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import threading
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tools"))
from local_server import free_port, wait_ready

PROMPTS = ["It was", "She looked at the old house, and"]
LONG_PAGES = 4  # of the demo, one after the other


def ask(url, body):
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        choice = json.load(reply)["choices"][0]
    return {"text": choice["text"], "logprobs": choice["logprobs"]["token_logprobs"]}


def bodies(names):
    """By a name that says what is asked."""
    long = (ROOT / "demo/page.txt").read_text() * LONG_PAGES
    found = {}
    for name in ["base", *names]:
        for number, prompt in enumerate([*PROMPTS, long]):
            body = {"model": name, "prompt": prompt, "max_tokens": 16, "logprobs": 1, "temperature": 0}
            found[f"{name} prompt {number} greedy"] = body
            found[f"{name} prompt {number} drawn"] = {**body, "temperature": 0.8, "top_p": 0.9, "seed": number}
    if {"doyle", "wells"} <= set(names):
        parts = [{"name": "doyle", "weight": 0.5}, {"name": "wells", "weight": 0.5}]
        found["sum greedy"] = {"model": "base", "adapters": parts, "prompt": PROMPTS[0], "max_tokens": 16,
                               "logprobs": 1, "temperature": 0}
    return found


def ask_at_once(url, wanted):
    answers, errors = {}, []

    def one(name):
        try:
            answers[name] = ask(url, wanted[name])
        except Exception as error:  # told by the caller's thread
            errors.append(f"{name}: {error}")

    threads = [threading.Thread(target=one, args=(name,)) for name in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        sys.exit("\n".join(errors))
    return answers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("answers")
    parser.add_argument("--adapters", default=str(ROOT / "demo/adapters"))
    own, flags = sys.argv[1:], []
    if "--" in own:
        own, flags = own[:own.index("--")], own[own.index("--") + 1:]
    options = parser.parse_args(own)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen([options.binary, "serve", "--model", ROOT / "demo/base", "--adapters", options.adapters,
                               "--host", "127.0.0.1", "--port", str(port), "--log-level", "error", *flags])
    try:
        wait_ready(url, server, 300)
        wanted = bodies(sorted(path.name for path in pathlib.Path(options.adapters).iterdir()))
        together = ask_at_once(url, wanted)
        alone = {name: ask(url, body) for name, body in wanted.items()}
        differ = [name for name in wanted if together[name] != alone[name]]
        if differ:
            sys.exit(f"{options.binary} answers otherwise in a batch than alone: {', '.join(differ)}")
        pathlib.Path(options.answers).write_text(json.dumps(together, indent=1, sort_keys=True))
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
