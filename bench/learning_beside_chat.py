#!/usr/bin/env python3
"""What training beside the serving costs chats: tokens/s, first token and time per token, alone and beside a job.

  bench/learning_beside_chat.py [--binary build/release/graft] [--model demo/base] [--share 0.3] [--rounds 3]
  bench/learning_beside_chat.py --device cuda:0 --shape bench/shapes/llama-3.1-8b.json --folder DIR --clients 64 \\
      --rank 16 --batch 8 --window 512 --learn-gib 16

One server with --learn-share. First as many clients as --clients ask one after the other, which is the saturated rate.
Then requests come at random times at --load of that rate: alone, and beside a job, in turns and at the same times.
Prints medians of the rounds, their quotients, what the job got of the time, the lengths of its micro-steps as the server
counted them, and how fast it trains while nobody asks. --shape serves random weights of that config.json, written to
--folder unless they are there. Python alone.
"""

import argparse
import asyncio
import contextlib
import json
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "bench")]
from cluster_overhead import make_model
from local_server import free_port, wait_ready

TEXT = "The lighthouse at Skerry Point was built by an engineer. The keeper lived in the tower with a grey parrot. "
STEP = re.compile(r"Step (\d+)/(\d+): training loss")


def get(url):
    with urllib.request.urlopen(url, timeout=60) as reply:
        return reply.read().decode()


def post(url, body, content_type="application/json"):
    request = urllib.request.Request(url, body, {"Content-Type": content_type})
    with urllib.request.urlopen(request, timeout=600) as reply:
        return json.load(reply)


class Job:
    """A job that outlives the measurement, and tells of every step."""

    def __init__(self, url, model, args):
        mark = uuid.uuid4().hex
        # A window is 0.9 of its length ahead of the one before; each TEXT has 20 tokens at least.
        windows = max(args.batch, 8)
        text = TEXT * (windows * args.window // 20 + 1)
        form = (f'--{mark}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n--{mark}\r\n'
                f'Content-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n{text}\r\n--{mark}--\r\n')
        file = post(f"{url}/v1/files", form.encode(), f"multipart/form-data; boundary={mark}")["id"]
        settings = {"learner": "next-token", "n_epochs": args.epochs, "batch_size": args.batch, "rank": args.rank,
                    "window_tokens": args.window}
        order = {"model": model, "training_file": file,
                 "method": {"type": "document", "document": {"hyperparameters": settings}}}
        self.url = f"{url}/v1/fine_tuning/jobs/{post(f'{url}/v1/fine_tuning/jobs', json.dumps(order).encode())['id']}"
        while self.step() == 0:
            time.sleep(0.05)

    def step(self):
        if json.loads(get(self.url))["status"] not in ("queued", "validating_files", "running"):
            raise SystemExit(f"the job has ended: {get(self.url)}\nmore --epochs")
        events = json.loads(get(f"{self.url}/events?limit=1"))["data"]
        found = STEP.search(events[0]["message"]) if events else None
        self.num_steps = int(found.group(2)) if found else 0
        return int(found.group(1)) if found else 0

    def end(self):
        post(f"{self.url}/cancel", b"")
        while json.loads(get(self.url))["status"] != "cancelled":
            time.sleep(0.02)


class Pieces:
    """Training's micro-steps since the server started."""

    def __init__(self, url):
        text = get(f"{url}/metrics")
        name = "graft_learn_micro_step_seconds"
        self.seconds = float(re.search(name + r"_sum (\S+)", text).group(1))
        self.buckets = {bound: float(count)
                        for bound, count in re.findall(name + r'_bucket{le="([^"]+)"} (\S+)', text)}

    def since(self, other):
        """Seconds, and how many took at most so many seconds."""
        return self.seconds - other.seconds, {bound: int(count - other.buckets[bound])
                                              for bound, count in self.buckets.items()}


def prompt(number, tokens):
    """Ids that begin otherwise for each number, so that no prefix is shared."""
    return [3 + (number * 7919 + i * 31 + number // 200) % 200 for i in range(tokens)]


class Chats:
    def __init__(self, port, model, args):
        self.port, self.model, self.args = port, model, args
        self.number = 0

    async def ask(self, times):
        """One request; adds the seconds to its first token and those per token behind it, and when it ended."""
        self.number += 1
        body = json.dumps({"model": self.model, "prompt": prompt(self.number, self.args.prompt_tokens), "stream": True,
                           "max_tokens": self.args.tokens, "temperature": 0, "ignore_eos": True}).encode()
        begin, first, last, count = time.monotonic(), 0.0, 0.0, 0
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                         b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
            status = await reader.readline()
            if b" 200 " not in status:
                raise SystemExit(f"refused: {status!r} {await reader.read(2000)!r}")
            while piece := await reader.read(1 << 16):
                events = piece.count(b'"text"')
                if events == 0:
                    continue
                last = time.monotonic()
                first = first or last
                count += events
        finally:
            writer.close()
        if count == 0:
            raise SystemExit("an answer without tokens")
        times.append((first - begin, (last - first) / max(1, self.args.tokens - 1), last))

    async def saturate(self, seconds):
        """Requests/s of all clients, each asking again when it was answered."""
        times, begin = [], time.monotonic()

        async def one():
            while time.monotonic() - begin < seconds:
                await self.ask(times)

        await asyncio.gather(*(one() for _ in range(self.args.clients)))
        # The clients end one by one: what came until the first of them had nothing more to ask.
        whole = [time for *_, time in times if time - begin < seconds]
        return len(whole) / seconds

    async def arrive(self, rate, seconds, seed):
        """Tokens/s, the 99th percentile of the first tokens, and the median time per token."""
        draws, times, tasks = random.Random(seed), [], []
        begin, at = time.monotonic(), 0.0
        while (at := at + draws.expovariate(rate)) < seconds:
            await asyncio.sleep(max(0.0, begin + at - time.monotonic()))
            tasks.append(asyncio.create_task(self.ask(times)))
        await asyncio.gather(*tasks)
        took = max(last for *_, last in times) - begin
        first = sorted(first for first, *_ in times)
        return (len(times) * self.args.tokens / took, first[min(len(first) - 1, int(0.99 * len(first)))],
                statistics.median(token for _, token, _ in times), took)


def quantile(buckets, share):
    total = buckets["+Inf"]
    return next((bound for bound, count in buckets.items() if count >= share * total), "?")


def train_alone(url, job, args):
    pieces, step, begin = Pieces(url), job.step(), time.monotonic()
    time.sleep(args.seconds)
    took = time.monotonic() - begin
    used, buckets = Pieces(url).since(pieces)
    return (job.step() - step) * args.batch * args.window / took, used / took, buckets


def print_pieces(name, buckets):
    print(f"micro-steps {name}: {buckets['+Inf']}, half of them up to {quantile(buckets, 0.5)} s, 99 % up to "
          f"{quantile(buckets, 0.99)} s, all up to {quantile(buckets, 1.0)} s")
    print("   up to s: " + ", ".join(f"{bound}: {count}" for bound, count in buckets.items()))


def run(url, port, args):
    chats = Chats(port, args.name, args)
    asyncio.run(chats.saturate(args.seconds / 4))  # warm
    saturated = asyncio.run(chats.saturate(args.seconds))
    rate = args.load * saturated
    print(f"saturated: {saturated:.2f} requests/s = {saturated * args.tokens:.1f} tokens/s; they come at {rate:.2f}/s")
    alone, beside, shares, all_buckets = [], [], [], {}
    for seed in range(args.rounds):
        alone.append(asyncio.run(chats.arrive(rate, args.seconds, seed)))
        job = Job(url, args.name, args)
        pieces = Pieces(url)
        beside.append(asyncio.run(chats.arrive(rate, args.seconds, seed)))
        used, buckets = Pieces(url).since(pieces)
        shares.append(used / beside[-1][3])
        all_buckets = {bound: count + all_buckets.get(bound, 0) for bound, count in buckets.items()}
        if seed + 1 == args.rounds:
            tokens, idle_share, idle_buckets = train_alone(url, job, args)
        job.end()
    print(f"{'':24}{'alone':>12}{'beside':>12}{'quotient':>12}")
    for i, name in enumerate(("tokens/s", "first token, P99, ms", "time per token, ms")):
        factor = 1 if i == 0 else 1000
        one, other = (factor * statistics.median(row[i] for row in rows) for rows in (alone, beside))
        print(f"{name:24}{one:12.2f}{other:12.2f}{other / one:12.3f}")
    print(f"\nthe bound of time per token is {1 / (1 - args.share):.3f}")
    share = statistics.median(shares)
    print(f"training: {tokens:.0f} tokens/s while nobody asks ({idle_share:.3f} of the time in micro-steps); beside chats "
          f"{share:.3f} of the time, about {tokens * share / idle_share:.0f} tokens/s")
    print_pieces("beside chats", all_buckets)
    print_pieces("while nobody asks", idle_buckets)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "build" / "release" / "graft")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "demo" / "base")
    parser.add_argument("--shape", help="random weights of this config.json in place of --model")
    parser.add_argument("--folder", type=pathlib.Path, help="where --shape writes them; default: a temporary folder")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--load", type=float, default=0.6, help="of the saturated rate")
    parser.add_argument("--clients", type=int, default=8, help="that saturate the server")
    parser.add_argument("--prompt-tokens", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--epochs", type=int, default=100_000, help="of the job; more steps than 199 are told in part")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--window", type=int, default=256, help="tokens of an example")
    parser.add_argument("--learn-gib", type=float, default=1.0)
    parser.add_argument("flags", nargs="*", help="of graft serve, after --")
    args = parser.parse_args()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if args.shape:
            args.model = args.folder or folder / "model"
            if not (args.model / "model.safetensors").exists():
                make_model(args.shape, args.model)
        args.name = "base"
        server = subprocess.Popen([
            args.binary, "serve", "--model", args.model, "--model-name", args.name, "--device", args.device, "--port",
            str(port), "--quiet", "--log-level", "warn", "--learn-dir", folder / "learn", "--learn-share",
            str(args.share), "--learn-gib", str(args.learn_gib), *args.flags])
        try:
            wait_ready(url, server, 600)
            run(url, port, args)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
