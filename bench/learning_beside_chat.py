#!/usr/bin/env python3
"""What training beside the serving costs chats: tokens/s, first token and time per token, alone and beside a job.

  bench/learning_beside_chat.py [--binary build/release/graft] [--model demo/base] [--share 0.3] [--rounds 3]

One server with --learn-share. In turns, `--clients` clients ask for texts of `--tokens` tokens, one after the other:
without a job, and while a job runs that does not end before them. Prints the medians of the rounds, their quotients,
and the lengths of training's micro-steps as the server counted them.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from local_server import free_port, wait_ready

TEXT = "The lighthouse at Skerry Point was built by an engineer. The keeper lived in the tower with a grey parrot. "
PROMPT = "It is a truth universally acknowledged, that a single man in possession of a good fortune"


def post(url, body, content_type="application/json"):
    request = urllib.request.Request(url, body, {"Content-Type": content_type})
    return urllib.request.urlopen(request, timeout=600)


def upload(url):
    mark = uuid.uuid4().hex
    form = (f'--{mark}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n--{mark}\r\n'
            f'Content-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n{TEXT * 20}\r\n--{mark}--\r\n')
    with post(f"{url}/v1/files", form.encode(), f"multipart/form-data; boundary={mark}") as reply:
        return json.load(reply)["id"]


def begin_job(url, model, file):
    """A job that outlives the measurement, once it trains."""
    order = {"model": model, "training_file": file,
             "method": {"type": "document", "document": {"hyperparameters": {"n_epochs": 100_000}}}}
    with post(f"{url}/v1/fine_tuning/jobs", json.dumps(order).encode()) as reply:
        job = json.load(reply)["id"]
    while True:
        with urllib.request.urlopen(f"{url}/v1/fine_tuning/jobs/{job}/events?limit=100") as reply:
            if any("training loss" in event["message"] for event in json.load(reply)["data"]):
                return job
        time.sleep(0.05)


def end_job(url, job):
    post(f"{url}/v1/fine_tuning/jobs/{job}/cancel", b"").close()
    while True:
        with urllib.request.urlopen(f"{url}/v1/fine_tuning/jobs/{job}") as reply:
            if json.load(reply)["status"] == "cancelled":
                return
        time.sleep(0.05)


def ask(url, model, tokens, requests, times):
    for _ in range(requests):
        body = {"model": model, "prompt": PROMPT, "max_tokens": tokens, "temperature": 0, "ignore_eos": True,
                "stream": True}
        begin, seen = time.monotonic(), []
        with post(f"{url}/v1/completions", json.dumps(body).encode()) as reply:
            for line in reply:
                if line.startswith(b"data: {"):
                    seen.append(time.monotonic())
        times.append((seen[0] - begin, (seen[-1] - seen[0]) / (tokens - 1)))


def measure(url, model, args):
    """Tokens/s of all clients, the 99th percentile of the first tokens, and the median time per token."""
    times = []
    threads = [threading.Thread(target=ask, args=(url, model, args.tokens, args.requests, times))
               for _ in range(args.clients)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - begin
    first = sorted(first for first, _ in times)
    return (len(times) * args.tokens / seconds, first[min(len(first) - 1, int(0.99 * len(first)))],
            statistics.median(token for _, token in times))


def micro_steps(url):
    with urllib.request.urlopen(f"{url}/metrics") as reply:
        text = reply.read().decode()
    return re.findall(r'graft_learn_micro_step_seconds_bucket\{le="([^"]+)"\} (\d+)', text)


def run(url, args):
    model = args.model.resolve().name
    file = upload(url)
    measure(url, model, args)  # warm
    alone, beside = [], []
    for _ in range(args.rounds):
        alone.append(measure(url, model, args))
        job = begin_job(url, model, file)
        beside.append(measure(url, model, args))
        end_job(url, job)
    print(f"{'':24}{'alone':>12}{'beside':>12}{'quotient':>12}")
    for i, name in enumerate(("tokens/s", "first token, P99, ms", "time per token, ms")):
        factor = 1 if i == 0 else 1000
        one, other = (factor * statistics.median(row[i] for row in rows) for rows in (alone, beside))
        print(f"{name:24}{one:12.2f}{other:12.2f}{other / one:12.3f}")
    print(f"\nthe bound of time per token is {1 / (1 - args.share):.3f}")
    print("micro-steps up to seconds: " + ", ".join(f"{bound}: {count}" for bound, count in micro_steps(url)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "build" / "release" / "graft")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "demo" / "base")
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--requests", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen([args.binary, "serve", "--model", args.model, "--port", str(port), "--quiet",
                                   "--log-level", "warn", "--learn-dir", folder, "--learn-share", str(args.share)])
        try:
            wait_ready(url, server, 600)
            run(url, args)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
