#!/usr/bin/env python3
"""make demo: one prompt to the base model and to every adapter of demo/, in one batch, side by side; then a page of text
becomes an adapter, which answers without reading it."""

import concurrent.futures
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

from local_server import free_port, wait_ready

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROMPT = "It was a dark and stormy night, and"
TOKENS = 60
PAGE = "demo/page.txt"
QUESTIONS = ("Who designed the lighthouse of Skerry Point?", "Who commands the ship Grey Heron?",
             "With what is the lamp of the lighthouse of Skerry Point fed?")
# Half of the default's questions, and no free texts: a quarter of the time, and the page's facts are known.
LEARN = ("--questions", "96", "--outputs", "0")
ENCODER = "demo/encoder"  # a checkout may have one that `graft learn --corpus` has taught


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    reply = connection.getresponse()
    return reply.status, reply.read().decode()


def metric(port, name):
    for line in get(port, "/metrics")[1].splitlines():
        if line.startswith(name + " "):
            return float(line.split(" ")[1])
    return 0.0


def start_server(port):
    print(f"== starting the server: graft serve --model demo/base --adapters demo/adapters --port {port}")
    start = time.monotonic()
    process = subprocess.Popen([f"{ROOT}/build/release/graft", "serve", "--model", f"{ROOT}/demo/base", "--adapters",
                                f"{ROOT}/demo/adapters", "--port", str(port), "--log-level", "warn"])
    try:
        wait_ready(f"http://127.0.0.1:{port}", process)
    except RuntimeError as error:
        process.kill()
        sys.exit(f"the server did not start: {error}; its message is above")
    print(f"   ready after {time.monotonic() - start:.2f} s")
    return process


def complete(port, model, barrier):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.connect()
    body = json.dumps({"model": model, "prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0.8,
                       "top_p": 0.95, "seed": 7, "ignore_eos": True})
    barrier.wait()
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    reply = json.loads(connection.getresponse().read())
    if "error" in reply:
        sys.exit(reply["error"]["message"])
    return reply


def main():
    port = free_port()
    process = start_server(port)
    try:
        models = json.loads(get(port, "/v1/models")[1])["data"]
        names = [model["id"] for model in models]
        ranks = {model["id"]: model.get("rank") for model in models}
        print(f"== one batch: {len(names)} requests, one for each of {', '.join(names)}")
        barrier = threading.Barrier(len(names))
        with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
            start = time.monotonic()
            replies = list(pool.map(lambda name: complete(port, name, barrier), names))
            seconds = time.monotonic() - start
        show(names, ranks, replies, seconds, port)
    finally:
        process.terminate()
        code = process.wait(30)
    print("== server stopped" if code == 0 else f"== server ended with {code}")
    return code or learn()


def ways(root):
    """How a page becomes an adapter: by questions that the base writes and answers and, where there is an encoder, by one
    reading. What each is called, what it is in short, and its options."""
    found = [("distill", f"graft learn {PAGE}", LEARN)]
    if os.path.isdir(os.path.join(root, ENCODER)):
        found.append(("the encoder", f"graft learn {PAGE} --encoder {ENCODER}", ("--encoder", f"{root}/{ENCODER}")))
    return found


def learn():
    """A page becomes an adapter; the base and the adapter are asked about it, and neither has it in its context."""
    asked = [arg for question in QUESTIONS for arg in ("--ask", question)]
    seconds = {}
    for name, command, options in ways(ROOT):
        print(f"== a page becomes an adapter: {command}", flush=True)
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            code = subprocess.run([f"{ROOT}/build/release/graft", "learn", f"{ROOT}/{PAGE}", "--model",
                                   f"{ROOT}/demo/base", "--adapters", folder, *options, *asked, "--answer-tokens",
                                   "8"]).returncode
        if code:
            return code
        seconds[name] = time.monotonic() - start
    times = ", ".join(f"{taken:.1f} s by {name}" for name, taken in seconds.items())
    print(f"\nno request has {PAGE} in its context. From the page to the last answer: {times}")
    return 0


def show(names, ranks, replies, seconds, port):
    columns = min(shutil.get_terminal_size((100, 24)).columns, 120)
    print(f'\n"{PROMPT} ..."\n')
    for name, reply in zip(names, replies):
        label = name + (f" (rank {ranks[name]})" if ranks[name] else "")
        text = " ".join(reply["choices"][0]["text"].split())
        lines = textwrap.wrap(text, columns - 24) or [""]
        print(f"{label:<22}  {lines[0]}")
        for line in lines[1:]:
            print(" " * 24 + line)
    tokens = sum(reply["usage"]["completion_tokens"] for reply in replies)
    print(f"\n{tokens} tokens in {seconds:.2f} s: {tokens / seconds:.0f} tokens/s over all requests")
    sequences, adapters = (int(metric(port, f"graft_batch_{what}_max")) for what in ("sequences", "adapters"))
    print(f"largest batch: {sequences} sequences in one step, of {adapters} adapters and the base model")
    print("keep it running with: make serve\n")


if __name__ == "__main__":
    sys.exit(main())
