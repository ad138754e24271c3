#!/usr/bin/env python3
"""How close `graft simulate` comes to a real cluster: serves one trace by runners and a frontend on this machine, once
for each placement and round, and by the simulator with costs that `graft profile` fits here before, between and after
the rounds. Prints P50 and P95 of the time to the first token, the time per token and the latency of both, their ratios,
and the order of the placements.

  bench/simulate_real.py --binary build/release/graft --seconds 60 --rate 3
  bench/simulate_real.py --binary build/gpu/graft --device cuda:0 --runners 1 --placements most-idle --seconds 20

One runner is `graft serve`; more of them need a release build with gRPC beside the program. Nothing else may run on the
machine meanwhile. Python alone.
"""

import argparse
import asyncio
import json
import math
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from local_server import free_port, wait_listening, wait_ready

DEMO = ROOT / "demo"
METRICS = ("first_token_ms", "token_ms", "latency_ms")
PERCENTILES = ("p50", "p95")
CONTEXT = 1024
PAGE_TOKENS = 16
PATIENCE_S = 120


def adapters_of(folder):
    """(name, rank) of each, by name."""
    found = []
    for path in sorted(pathlib.Path(folder).glob("*/adapter_config.json")):
        found.append((path.parent.name, json.loads(path.read_text())["r"]))
    return found


def geometric(mean, most, rng):
    return max(1, min(most, round(rng.expovariate(1.0) * (mean - 0.5) + 0.5)))


def make_trace(args, num_adapters):
    """(seconds, adapter, prompt tokens, output tokens) in order of arrival: Poisson, Zipf, geometric lengths."""
    rng = random.Random(args.seed)
    weights = [1.0 / (place + 1) for place in range(num_adapters)]
    now, trace = 0.0, []
    while True:
        now += rng.expovariate(args.rate)
        if now > args.seconds:
            return trace
        trace.append((now, rng.choices(range(num_adapters), weights)[0],
                      geometric(args.prompt_tokens, CONTEXT // 2, rng), geometric(args.output_tokens, CONTEXT // 2, rng)))


def write_trace(trace, path):
    """In LMSYS' format. The simulator numbers adapters as they appear; returns them in that order."""
    order = []
    with open(path, "w") as file:
        file.write("req_id,req_time_s,adapter,prompt_len,output_len\n")
        for number, (seconds, adapter, prompt, output) in enumerate(trace):
            file.write(f"{number},{seconds:.6f},a{adapter},{prompt},{output}\n")
            if adapter not in order:
                order.append(adapter)
    return order


def run_graft(args, *words):
    return subprocess.run([args.binary, *map(str, words)], check=True, stdout=subprocess.PIPE, text=True).stdout


def profile(args, number):
    """The number-th costs of this machine, as it is now."""
    path = (pathlib.Path(args.folder) / f"costs-{number}.json").absolute()
    subprocess.run([args.binary, "profile", "--model", str(args.model), "--device", args.device, "--threads", "1",
                    "--ranks", "4,8,16,32,64", "--batch", "1,2,4,8", "--prompt", "16,64,256", "--context", "64,512",
                    "--steps", str(args.steps), "--serve-runners", str(args.runners), "--json", str(path)], check=True)
    return path


class Cluster:
    """Runners and a frontend with one placement; one runner is a server without a frontend."""

    def __init__(self, args, placement, costs):
        self.args, self.placement, self.costs = args, placement, costs
        self.folder = pathlib.Path(args.folder) / f"cluster-{placement}"
        self.processes = []

    def start(self, command, port_flag, *words):
        port = free_port()
        log = self.folder / f"{command}-{len(self.processes)}.log"
        with open(log, "w") as out:
            process = subprocess.Popen([self.args.binary, command, "--model", str(self.args.model), port_flag, str(port),
                                        "--request-log", "false", "--quiet", *map(str, words)], stdout=out, stderr=out)
        self.processes.append(process)
        wait_listening(port, process, PATIENCE_S)
        return port

    def __enter__(self):
        args = self.args
        self.folder.mkdir(parents=True, exist_ok=True)
        runner = ["--device", args.device, "--threads", 1, "--pool-gib", args.pool_gib, "--sequences-max", args.batch,
                  "--prefix-cache", "false", "--adapters", args.adapters]
        try:
            if args.runners == 1:
                self.port = self.start("serve", "--port", *runner)
            else:
                ports = [self.start("runner", "--rpc-port", *runner) for _ in range(args.runners)]
                self.port = self.start("frontend", "--port", "--placement", self.placement, "--placement-costs", self.costs,
                                       "--runners", ",".join(f"127.0.0.1:{port}" for port in ports))
            wait_ready(f"http://127.0.0.1:{self.port}", self.processes[-1], PATIENCE_S)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused):
        for process in reversed(self.processes):
            process.terminate()
            process.wait()


class Answer(asyncio.Protocol):
    """Times what comes and reads it when all is there: the client shares the cores of what it measures."""

    def __init__(self):
        self.first = self.last = None
        self.parts = []
        self.done = asyncio.get_running_loop().create_future()

    def data_received(self, data):
        self.parts.append(data)
        if b'"choices":[{' in data:
            self.last = time.monotonic()
            self.first = self.first or self.last

    def connection_lost(self, error):
        if not self.done.done():
            self.done.set_result(b"".join(self.parts))


async def ask(port, adapter, prompt, output):
    """Seconds of the request to its first and its last token."""
    body = json.dumps({"model": adapter, "prompt": prompt, "max_tokens": output, "temperature": 0, "ignore_eos": True,
                       "stream": True, "stream_options": {"include_usage": True}}).encode()
    transport, answer = await asyncio.get_running_loop().create_connection(Answer, "127.0.0.1", port)
    began = time.monotonic()  # what asyncio takes to connect is not the server's
    transport.write(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
    text = await answer.done
    transport.close()
    usage = re.findall(rb'"completion_tokens":(\d+)', text)
    if not usage or int(usage[-1]) != output or answer.first is None:
        raise RuntimeError(f"{output} tokens were asked for; the answer is {text.decode(errors='replace')[:500]}")
    return answer.first - began, answer.last - began


async def replay(args, port, trace, adapters, vocab):
    """(seconds of arrival, output tokens, seconds to the first and to the last token) of each request."""
    rng = random.Random(args.seed + 1)
    prompts = [[rng.randrange(3, vocab) for _ in range(prompt)] for _, _, prompt, _ in trace]
    for name, _ in adapters:  # all of them are read once, on some runner
        await ask(port, name, prompts[0], 1)
    began = time.monotonic()

    async def one(number):
        seconds, adapter, _, output = trace[number]
        await asyncio.sleep(max(0.0, began + seconds - time.monotonic()))
        return (seconds, output, *await ask(port, adapters[adapter][0], prompts[number], output))

    return await asyncio.gather(*(one(number) for number in range(len(trace))))


def percentile(values, share):
    return sorted(values)[max(1, math.ceil(share * len(values))) - 1]


def figures_of(served, warm_seconds):
    values = {metric: [] for metric in METRICS}
    for seconds, output, first, last in served:
        if seconds < warm_seconds:
            continue
        values["first_token_ms"].append(first * 1e3)
        values["latency_ms"].append(last * 1e3)
        if output > 1:
            values["token_ms"].append((last - first) * 1e3 / (output - 1))
    return {(metric, name): percentile(of, int(name[1:]) / 100) for metric, of in values.items() for name in PERCENTILES}


def page_bytes(config):
    """Of keys and values in fp16, as the CPU has them."""
    return config["num_hidden_layers"] * 2 * config["num_key_value_heads"] * config["head_dim"] * 2 * PAGE_TOKENS


def simulate(args, placement, costs, trace_path, ranks, num_requests):
    path = pathlib.Path(args.folder) / f"simulated-{placement}.json"
    pages = int(args.pool_gib * 2**30 / page_bytes(json.loads((pathlib.Path(args.model) / "config.json").read_text())))
    run_graft(args, "simulate", "--quiet", "--trace", trace_path, "--requests", num_requests, "--runners", args.runners,
              "--placement", placement, "--costs", costs, "--ranks", ",".join(map(str, ranks)), "--batch", args.batch,
              "--pages", pages, "--page-tokens", PAGE_TOKENS, "--context-tokens-max", CONTEXT, "--adapters-max", 1024,
              "--cold-start", "auto", "--machine-runners", args.runners, "--warm-seconds", args.warm_seconds, "--json", path)
    run = json.loads(path.read_text())["runs"][0]
    return {(metric, name): run[metric][name] for metric in METRICS for name in PERCENTILES}


def mean_of(figures):
    return {key: statistics.mean(one[key] for one in figures) for key in figures[0]}


def order_of(figures, key):
    return sorted(figures, key=lambda placement: figures[placement][key])


def print_tables(real, simulated):
    print(f"\n{'placement':14s} {'':16s} {'real':>10s} {'simulated':>10s} {'ratio':>7s}")
    ratios = []
    for placement in real:
        for metric in METRICS:
            for name in PERCENTILES:
                ours, theirs = simulated[placement][metric, name], real[placement][metric, name]
                ratios.append(ours / theirs)
                print(f"{placement:14s} {metric[:-3]:12s} {name} {theirs:10.2f} {ours:10.2f} {ours / theirs:7.3f}")
    print(f"\nratios: {min(ratios):.3f} to {max(ratios):.3f}, median {statistics.median(ratios):.3f}")
    for metric in METRICS:
        for name in PERCENTILES:
            print(f"{metric[:-3]} {name}: real {' < '.join(order_of(real, (metric, name)))}; "
                  f"simulated {' < '.join(order_of(simulated, (metric, name)))}")


def main(args):
    args.binary = str(pathlib.Path(args.binary).absolute())
    pathlib.Path(args.folder).mkdir(parents=True, exist_ok=True)
    adapters = adapters_of(args.adapters)
    vocab = json.loads((pathlib.Path(args.model) / "config.json").read_text())["vocab_size"]
    trace = make_trace(args, len(adapters))
    trace_path = pathlib.Path(args.folder) / "trace.csv"
    order = write_trace(trace, trace_path)
    # The machine's speed changes while the clusters run, so it is measured before, between and after the rounds.
    costs = [profile(args, 0)]
    served = {placement: [] for placement in args.placements}
    for number in range(args.rounds):
        for placement in args.placements if number % 2 == 0 else reversed(args.placements):
            with Cluster(args, placement, costs[-1]) as cluster:
                served[placement] += asyncio.run(replay(args, cluster.port, trace, adapters, vocab))
            print(f"round {number + 1}, {placement}: {len(trace)} requests served", flush=True)
        costs.append(profile(args, number + 1))
    real = {placement: figures_of(of, args.warm_seconds) for placement, of in served.items()}
    ranks = [adapters[adapter][1] for adapter in order]
    simulated = {placement: mean_of([simulate(args, placement, one, trace_path, ranks, len(trace)) for one in costs])
                 for placement in args.placements}
    print_tables(real, simulated)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/release/graft")
    parser.add_argument("--folder", default="build/simulate-real", help="for logs and files")
    parser.add_argument("--steps", type=int, default=20, help="of each kind that graft profile times")
    parser.add_argument("--model", default=str(DEMO / "base"), help="HF folder")
    parser.add_argument("--adapters", default=str(DEMO / "adapters"), help="folder of its adapters")
    parser.add_argument("--device", default="cpu", help="that all runners share")
    parser.add_argument("--placements", type=lambda text: text.split(","), default=["most-idle", "rendezvous", "auto"])
    parser.add_argument("--runners", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2, help="of all placements, in turns")
    parser.add_argument("--seconds", type=float, default=60, help="of the trace")
    parser.add_argument("--warm-seconds", type=float, default=5, help="whose requests are not counted")
    parser.add_argument("--rate", type=float, default=3, help="requests a second")
    parser.add_argument("--prompt-tokens", type=float, default=60, help="mean")
    parser.add_argument("--output-tokens", type=float, default=60, help="mean")
    parser.add_argument("--batch", type=int, default=16, help="sequences in a runner's step")
    parser.add_argument("--pool-gib", type=float, default=0.25, help="of a runner")
    parser.add_argument("--seed", type=int, default=1)
    main(parser.parse_args())
