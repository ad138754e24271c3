#!/usr/bin/env python3
"""Streams through a cluster while its runners die: are all tokens those of one process, and how long are the pauses?

  bench/cluster_faults.py --seconds 600 --json faults.json

Starts one `graft serve` and asks it once for each of a set of requests (base and adapters, greedy and sampled). Then it
starts `graft frontend` and `graft runner` processes on this machine, holds --streams streams of the same requests
open, and hurts a runner every --every seconds. Each answer is compared with the one process's, text and usage.
Python packages: httpx, which comes with the tests' clients (build/venv).
"""

import argparse
import asyncio
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import time

import httpx

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from local_server import free_port, wait_ready

DEMO = ROOT / "demo"
FAULTS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "drain": signal.SIGTERM}
STOPPED_SECONDS = 3
PROMPTS = ["It was a dark and stormy night, and", "The ship had been at sea for", "My dear fellow, said he,",
           "She looked up at the moon and", "There is nothing so strange as"]


class Process:
    """A graft process that is started again under the same arguments."""

    def __init__(self, binary, *args):
        self.command = [binary, *map(str, args)]
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.command, stderr=subprocess.DEVNULL)
        return self

    def send(self, sig):
        self.process.send_signal(sig)

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()


def requests_of(models, count, tokens):
    """Different in model, prompt, length and way of drawing."""
    rng = random.Random(7)
    requests = []
    for i in range(count):
        request = {"model": models[i % len(models)], "prompt": PROMPTS[i % len(PROMPTS)], "stream": True,
                   "max_tokens": rng.randrange(tokens // 2, tokens + 1), "seed": i,
                   "temperature": 0 if i % 2 == 0 else 0.9, "stream_options": {"include_usage": True}}
        if i % 3 == 0:
            request["frequency_penalty"] = 0.4
        requests.append(request)
    return requests


async def ask(client, url, request):
    """(text, finish reason, completion tokens, longest pause between two pieces) of one stream."""
    text, reason, tokens, longest = "", None, None, 0.0
    last = time.monotonic()
    async with client.stream("POST", url + "/v1/completions", json=request) as reply:
        if reply.status_code != 200:
            raise RuntimeError(f"{reply.status_code}: {(await reply.aread()).decode()[:200]}")
        async for line in reply.aiter_lines():
            if not line.startswith("data: "):
                continue
            now = time.monotonic()
            longest, last = max(longest, now - last), now
            if line == "data: [DONE]":
                return text, reason, tokens, longest
            chunk = json.loads(line[6:])
            if "error" in chunk:
                raise RuntimeError(str(chunk["error"]))
            for choice in chunk["choices"]:
                text += choice["text"]
                reason = choice["finish_reason"] or reason
            tokens = (chunk.get("usage") or {}).get("completion_tokens", tokens)
    raise RuntimeError("the stream ended without [DONE]")


class Load:
    """Streams that never end, and what became of them."""

    def __init__(self, urls, requests, expected):
        self.urls, self.requests, self.expected = urls, requests, expected
        self.done, self.tokens, self.failed, self.changed, self.pauses = 0, 0, [], [], []
        self.stopping = False

    async def stream(self, idx):
        rng = random.Random(idx)
        async with httpx.AsyncClient(timeout=300) as client:
            while not self.stopping:
                number = rng.randrange(len(self.requests))
                try:
                    text, reason, tokens, longest = await ask(client, self.urls[idx % len(self.urls)],
                                                              self.requests[number])
                except (httpx.HTTPError, RuntimeError) as error:
                    self.failed.append(f"request {number}: {error!r}")
                    continue
                self.done += 1
                self.tokens += tokens or 0
                self.pauses.append(longest)
                if (text, reason, tokens) != self.expected[number]:
                    self.changed.append(number)


async def hurt(args, runners, load, events):
    rng = random.Random(3)
    end = time.monotonic() + args.seconds
    while time.monotonic() + args.every < end:
        await asyncio.sleep(args.every)
        victim = rng.choice(runners)
        fault = args.fault if args.fault != "mixed" else rng.choice(sorted(FAULTS))
        events.append((fault, time.monotonic()))
        victim.send(FAULTS[fault])
        if fault == "stop":
            await asyncio.sleep(STOPPED_SECONDS)
            victim.send(signal.SIGCONT)
            continue
        await asyncio.get_running_loop().run_in_executor(None, victim.process.wait)
        victim.start()
    await asyncio.sleep(max(0.0, end - time.monotonic()))
    load.stopping = True


async def reference(args, requests):
    port = free_port()
    server = Process(args.binary, "serve", "--model", args.model, "--adapters", args.adapters, "--port", port,
                     "--threads", args.threads).start()
    try:
        wait_ready(f"http://127.0.0.1:{port}", server.process)
        async with httpx.AsyncClient(timeout=300) as client:
            return [(await ask(client, f"http://127.0.0.1:{port}", request))[:3] for request in requests]
    finally:
        server.end()


async def main(args):
    models = ["base"] + sorted(os.listdir(args.adapters))
    requests = requests_of(models, args.requests, args.tokens)
    print(f"asking one process for {len(requests)} answers", flush=True)
    expected = await reference(args, requests)
    ports = [free_port() for _ in range(args.runners)]
    runners = [Process(args.binary, "runner", "--model", args.model, "--adapters", args.adapters, "--threads",
                       args.threads, "--rpc-port", port).start() for port in ports]
    addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
    http_ports = [free_port() for _ in range(args.frontends)]
    frontends = [Process(args.binary, "frontend", "--model", args.model, "--runners", addresses, "--port",
                         port).start() for port in http_ports]
    urls = [f"http://127.0.0.1:{port}" for port in http_ports]
    try:
        for url, frontend in zip(urls, frontends):
            wait_ready(url, frontend.process)
        load, events = Load(urls, requests, expected), []
        began = time.monotonic()
        await asyncio.gather(hurt(args, runners, load, events), *(load.stream(i) for i in range(args.streams)))
        seconds = time.monotonic() - began
    finally:
        for process in frontends + runners:
            process.end()
    pauses = sorted(load.pauses)
    result = {"seconds": round(seconds, 1), "streams": args.streams, "runners": args.runners,
              "frontends": args.frontends, "fault": args.fault, "faults": len(events), "answers": load.done,
              "failed": len(load.failed), "changed": len(load.changed),
              "tokens_per_second": round(load.tokens / seconds, 1),
              "longest_pause_s": {"median": round(statistics.median(pauses), 3), "max": round(pauses[-1], 3)}}
    print(json.dumps(result, indent=1))
    for line in load.failed[:5]:
        print(line)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(result, indent=1) + "\n")
    return 1 if load.failed or load.changed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=str(ROOT / "build/release/graft"))
    parser.add_argument("--model", default=str(DEMO / "base"))
    parser.add_argument("--adapters", default=str(DEMO / "adapters"))
    parser.add_argument("--runners", type=int, default=3)
    parser.add_argument("--frontends", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="kernel threads of each runner")
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--requests", type=int, default=45, help="different requests")
    parser.add_argument("--tokens", type=int, default=200, help="of the longest answer")
    parser.add_argument("--fault", default="kill", choices=[*sorted(FAULTS), "mixed"])
    parser.add_argument("--every", type=float, default=10, help="seconds between two faults")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--json")
    sys.exit(asyncio.run(main(parser.parse_args())))
