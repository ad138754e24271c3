#!/usr/bin/env python3
"""What one tenant's flood costs another, over HTTP: tenant A floods a server in several ways while tenant B asks one
request at a time. Prints B's 50th and 99th percentile of the time to the first token, beside that of an idle server and
the longest step; B's share of the tokens when it wants half of them; and A's throughput alone, in turns with another
binary (--baseline) or with the same one without keys.

usage: fairness.py BINARY [--model DIR] [--adapters DIR] [--requests 1000] [--prompt-tokens 4000] [--asks 60]
                   [--only NAME,...] [--baseline BINARY] [--json FILE] [--shape CONFIG --folder DIR]
                   [-- FLAGS OF graft serve]

--shape writes a model of that config.json with random weights, and adapters of rank 16 on its q_proj, into --folder,
unless they are there.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "bench")]
import cluster_overhead
from activated import write_adapter
from local_server import free_port, wait_ready

KEYS = [{"key": "key-a", "tenant": "a", "adapters": ["*"]}, {"key": "key-b", "tenant": "b", "adapters": ["*"]}]


class Server:
    """graft serve in a process of its own, with a key for each tenant unless `keys` is false."""

    def __init__(self, options, binary, flags=(), keys=True):
        self.port = free_port()
        self.folder = tempfile.TemporaryDirectory()
        arguments = [binary, "serve", "--model", str(options.model), "--port", str(self.port), "--model-name", "base",
                     "--quiet", "--log-level", "error", *map(str, flags), *options.flags]
        if keys:
            path = pathlib.Path(self.folder.name) / "keys.json"
            path.write_text(json.dumps(KEYS))
            arguments += ["--api-keys", str(path)]
        self.process = subprocess.Popen(arguments)
        wait_ready(f"http://127.0.0.1:{self.port}", self.process, 600)

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=60) as reply:
            return reply.read().decode()

    def steps(self):
        """Steps so far: their number and their seconds, and how many took at most so many seconds."""
        text = self.metrics()
        count, seconds = (float(re.search(rf"^graft_step_seconds_{what} (\S+)$", text, re.MULTILINE)[1])
                          for what in ("count", "sum"))
        found = re.findall(r'^graft_step_seconds_bucket{le="([^"]+)"} (\S+)$', text, re.MULTILINE)
        return count, seconds, {float(bound): float(number) for bound, number in found}

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.terminate()
        self.process.wait(120)
        self.folder.cleanup()


async def post(server, key, body, on_piece=None):
    """Status and the answer's bytes; `on_piece` is told of every piece of an answer that comes in pieces."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n"
                     f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\nConnection: close\r\n\r\n".encode()
                     + raw)
        with contextlib.suppress(ConnectionError):
            await writer.drain()  # a refusal may come before all of the body was read
        status = int((await reader.readline()).split()[1])
        while (await reader.readline()).strip():
            pass
        pieces = []
        while piece := await reader.read(65536):
            pieces.append(piece)
            if on_piece is not None:
                on_piece(piece)
        return status, b"".join(pieces)
    finally:
        writer.close()


def prompt(number, tokens):
    """Ids that begin otherwise for each number, so that no prefix is shared."""
    return [3 + (number * 7919 + i * 31) % 200 for i in range(tokens)]


async def first_token(server, number):
    """Seconds to the first token of one of B's requests."""
    begin, seconds = time.perf_counter(), []

    def hear(piece):
        if not seconds and b'"text"' in piece:
            seconds.append(time.perf_counter() - begin)

    status, answer = await post(server, "key-b", {"model": "base", "prompt": prompt(10**6 + number, 32), "max_tokens": 4,
                                                  "ignore_eos": True, "stream": True}, hear)
    if status != 200 or not seconds:
        raise SystemExit(f"B was answered {status}: {answer[:300]}")
    return seconds[0]


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


# How A floods: each makes A's request number i.
def long_prompts(options, i):
    return {"model": "base", "prompt": prompt(i, options.prompt_tokens), "max_tokens": 16, "ignore_eos": True}


def choices(options, i):
    return {"model": "base", "prompt": prompt(i, 32), "n": 128, "max_tokens": 200, "ignore_eos": True}


def cold_adapters(options, i):
    return {"model": options.names[i % len(options.names)], "prompt": prompt(i, 64), "max_tokens": 64, "ignore_eos": True}


def unknown_names(options, i):
    return {"model": f"nobody-{i}", "prompt": "x", "max_tokens": 1}


def long_bodies(options, i):
    return json.dumps({"model": "base", "prompt": "a " * (2 << 20), "max_tokens": 1}).encode()


# Name, A's request, how many of its requests are in flight at once (0: all), flags of the server.
FLOODS = [("long-prompts", long_prompts, 0, ()), ("choices", choices, 8, ()),
          ("cold-adapters", cold_adapters, 0, ("--adapters-max", 2, "--tune", "read-at-start-gib=0")),
          ("unknown-names", unknown_names, 64, ()), ("long-bodies", long_bodies, 16, ())]


async def flood(server, options, request, at_once, statuses):
    """A's requests one after the other on each of `at_once` connections, until it is cancelled; `at_once` 0: a
    thousand requests (--requests) once, and again as they end."""
    count = 0

    async def one():
        nonlocal count
        while True:
            count += 1
            try:
                status, _ = await post(server, "key-a", request(options, count))
            except (ConnectionError, IndexError):
                status = 0  # cut off
            statuses[status] = statuses.get(status, 0) + 1
            if status in (0, 429, 503):
                await asyncio.sleep(0.2)

    await asyncio.gather(*(one() for _ in range(at_once or options.requests)))


def flood_until_told(server, options, request, at_once, pipe):
    """A's process: floods until something comes by the pipe, and answers what it got."""
    statuses = {}

    async def until_told():
        flooding, told = asyncio.create_task(flood(server, options, request, at_once, statuses)), asyncio.Event()
        asyncio.get_running_loop().add_reader(pipe.fileno(), told.set)
        await told.wait()
        flooding.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await flooding

    asyncio.run(until_told())
    pipe.send(statuses)


@contextlib.contextmanager
def flooded(server, options, request, at_once, statuses):
    """A in a process of its own, so that B does not wait for A's own work."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=flood_until_told, args=(server, options, request, at_once, theirs))
    process.start()
    theirs.close()
    try:
        yield
        ours.send(None)
        statuses.update(ours.recv())
    finally:
        process.join(60)
        process.kill()


class LongestStep:
    """The longest step while it is watched. A look tells the mean of the steps since the last one, which is the step
    itself where steps are long; no step is longer than the bound of the last bucket that got one."""

    def __init__(self, server):
        self.server, self.least, self.most, self.done = server, 0.0, 0.0, False

    async def watch(self):
        count, seconds, before = await asyncio.to_thread(self.server.steps)
        now = before
        while not self.done:
            await asyncio.sleep(0.2)
            last_count, last_seconds = count, seconds
            count, seconds, now = await asyncio.to_thread(self.server.steps)
            if count > last_count:
                self.least = max(self.least, (seconds - last_seconds) / (count - last_count))
        got, below = {bound: now[bound] - before.get(bound, 0.0) for bound in now}, 0.0
        for bound in sorted(got):
            if got[bound] > below:
                below, self.most = got[bound], bound


async def measure_flood(server, options, request, at_once):
    idle = [await first_token(server, i) for i in range(options.asks)]
    longest, statuses = LongestStep(server), {}
    watching = asyncio.create_task(longest.watch())
    with flooded(server, options, request, at_once, statuses):
        await asyncio.sleep(options.settle)
        busy = [await first_token(server, options.asks + i) for i in range(options.asks)]
        longest.done = True
        await watching
    twice = 2 * percentile(idle, 0.99)
    p99 = percentile(busy, 0.99)
    verdict = "holds" if p99 <= twice + longest.least else "open" if p99 <= twice + longest.most else "does not hold"
    return {"idle_p50_s": statistics.median(idle), "idle_p99_s": percentile(idle, 0.99),
            "busy_p50_s": statistics.median(busy), "busy_p99_s": p99, "longest_step_s": [longest.least, longest.most],
            "reach_s": [twice + longest.least, twice + longest.most], "verdict": verdict, "a_statuses": statuses}


async def measure_half(server, options):
    """Of a server with 16 places A has 64 requests in flight and B has 16, all alike: B's share of the tokens that come
    while both want more."""
    tokens, stop = {"key-a": 0, "key-b": 0}, time.perf_counter() + options.seconds

    async def one(key, number):
        def hear(piece):
            if time.perf_counter() < stop:
                tokens[key] += piece.count(b"data: {")

        while time.perf_counter() < stop:
            body = {"model": "base", "prompt": prompt(number, 32), "max_tokens": 64, "ignore_eos": True, "stream": True}
            await post(server, key, body, hear)

    await asyncio.gather(*(one("key-a", i) for i in range(64)), *(one("key-b", 100 + i) for i in range(16)))
    share = tokens["key-b"] / max(1, sum(tokens.values()))
    return {"b_share": share, "holds": share >= 0.45, "tokens": tokens}


async def throughput(server, options):
    """Tokens a second of A alone: 64 requests at once."""
    begin = time.perf_counter()
    body = {"model": "base", "max_tokens": 64, "ignore_eos": True}
    replies = await asyncio.gather(*(post(server, "key-a", body | {"prompt": prompt(i, 32)}) for i in range(64)))
    if any(status != 200 for status, _ in replies):
        raise SystemExit(f"A was answered {[status for status, _ in replies]}")
    return 64 * 64 / (time.perf_counter() - begin)


def measure_alone(options):
    """Medians in turns: this binary with keys, and --baseline, or this one without."""
    ratios = []
    with Server(options, options.binary) as ours, Server(options, options.baseline or options.binary,
                                                         keys=False) as theirs:
        for turn in range(options.rounds + 1):
            pair = [0.0, 0.0]
            for which in (0, 1) if turn % 2 == 0 else (1, 0):
                pair[which] = asyncio.run(throughput((ours, theirs)[which], options))
            if turn > 0:  # the first one warms both up
                ratios.append(pair[0] / pair[1])
    return {"ratio": statistics.median(ratios), "ratios": ratios, "holds": statistics.median(ratios) >= 0.98}


def write_shape(options):
    options.model, options.adapters = options.folder / "base", options.folder / "adapters"
    if not options.folder.exists():
        cluster_overhead.make_model(options.shape, options.model)
        for number in range(16):
            write_adapter(options.adapters / f"adapter-{number:02}", options.shape)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "demo" / "base")
    parser.add_argument("--adapters", type=pathlib.Path, default=ROOT / "demo" / "adapters")
    parser.add_argument("--requests", type=int, default=1000, help="of a flood, at once")
    parser.add_argument("--prompt-tokens", type=int, default=4000)
    parser.add_argument("--asks", type=int, default=60, help="of B, one at a time")
    parser.add_argument("--settle", type=float, default=2.0, help="seconds between the flood's begin and B's")
    parser.add_argument("--seconds", type=float, default=30.0, help="of the measurement of B's half")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--baseline", default="")
    parser.add_argument("--json")
    parser.add_argument("--shape", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path)
    own, flags = sys.argv[1:], []
    if "--" in own:
        own, flags = own[:own.index("--")], own[own.index("--") + 1:]
    options = parser.parse_args(own)
    options.flags = flags
    if options.shape:
        if not options.folder:
            parser.error("--shape needs --folder")
        write_shape(options)
    options.names = sorted(entry.name for entry in options.adapters.iterdir() if entry.is_dir())
    return options


def main():
    options, results = parse(), {}
    wanted = set(filter(None, options.only.split(",")))
    for name, request, at_once, flags in FLOODS:
        if wanted and name not in wanted:
            continue
        adapters = ("--adapters", options.adapters) if name == "cold-adapters" else ()
        with Server(options, options.binary, (*flags, *adapters)) as server:
            found = results[name] = asyncio.run(measure_flood(server, options, request, at_once))
        print(f"{name:14} first token of B: idle P50 {1e3 * found['idle_p50_s']:.1f} P99 {1e3 * found['idle_p99_s']:.1f} ms, "
              f"flooded P50 {1e3 * found['busy_p50_s']:.1f} P99 {1e3 * found['busy_p99_s']:.1f} ms, "
              f"to reach {1e3 * found['reach_s'][0]:.1f} to {1e3 * found['reach_s'][1]:.1f} ms (longest step "
              f"{1e3 * found['longest_step_s'][0]:.1f} to {1e3 * found['longest_step_s'][1]:.1f}): "
              f"{found['verdict']}; A got {found['a_statuses']}", flush=True)
    if not wanted or "half" in wanted:
        with Server(options, options.binary, ("--sequences-max", 16)) as server:
            found = results["half"] = asyncio.run(measure_half(server, options))
        print(f"half           B's share of the tokens {found['b_share']:.2f}: "
              f"{'holds' if found['holds'] else 'does not hold'} (0.45)", flush=True)
    if not wanted or "alone" in wanted:
        found = results["alone"] = measure_alone(options)
        print(f"alone          A's throughput {found['ratio']:.3f} of the baseline's ({min(found['ratios']):.3f} to "
              f"{max(found['ratios']):.3f}): {'holds' if found['holds'] else 'does not hold'} (0.98)", flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"cores": os.cpu_count(), "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
