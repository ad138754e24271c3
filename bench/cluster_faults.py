#!/usr/bin/env python3
"""Streams through a cluster while parts of it die: are all tokens those of one process, and how long are the pauses?

  bench/cluster_faults.py --fault kill --seconds 600 --json faults.json

Starts one `graft serve` and asks it once for each of a set of requests (base and adapters, greedy and sampled). Then it
starts etcd, `graft frontend` and `graft runner` processes on this machine, holds --streams streams of the same requests
open, and hurts the cluster. Each answer is compared with the one process's, text and usage. --fault says what happens:

  kill, stop, drain, mixed     a runner, every --every seconds: SIGKILL, SIGSTOP for 3 s, SIGTERM, or one of these
  upgrade                      all runners, one after the other: SIGTERM, wait for the end (exit code 0), start anew
  etcd-stop, etcd-kill         etcd is away for --away seconds: SIGSTOP and SIGCONT, or SIGKILL and a new start
  frontend                     one that does not lead: SIGKILL, started again after 3 s
  leader-kill, leader-stop     the frontend that leads: SIGKILL and a new start, SIGSTOP and SIGCONT after 8 s

Clients of a frontend that was killed are counted apart. Python packages: httpx, which comes with the tests' clients
(build/venv). Debian package: etcd-server.
"""

import argparse
import asyncio
import base64
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import httpx

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from local_server import free_port, is_ready

DEMO = ROOT / "demo"
RUNNER_FAULTS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "drain": signal.SIGTERM}
STOPPED_SECONDS = 3
DOWN_SECONDS = 3
LEADER_STOPPED_SECONDS = 8
PATIENCE_SECONDS = 120
ADMIN_KEY = "faults"
PROMPTS = ["It was a dark and stormy night, and", "The ship had been at sea for", "My dear fellow, said he,",
           "She looked up at the moon and", "There is nothing so strange as"]


class Process:
    """One that is started again under the same arguments. Its log is appended to a file."""

    def __init__(self, log, *args):
        self.log, self.command = log, [*map(str, args)]
        self.process = None

    def start(self):
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        return self

    def send(self, sig):
        self.process.send_signal(sig)

    async def ended(self):
        return await asyncio.get_running_loop().run_in_executor(None, self.process.wait)

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()


async def until(holds, what, seconds=PATIENCE_SECONDS, every=0.1):
    """Waits for an async condition, and gives what it gave."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if (found := await holds()):
                return found
        except httpx.HTTPError:
            pass
        await asyncio.sleep(every)
    raise TimeoutError(f"{what} (waited {seconds} s)")


async def wait_ready(url):
    await until(lambda: asyncio.to_thread(is_ready, url), f"{url} is not ready")


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
    """(text, finish reason, completion tokens, seconds to the first piece, longest pause between two) of one stream."""
    text, reason, tokens, first, longest = "", None, None, None, 0.0
    last = time.monotonic()
    async with client.stream("POST", url + "/v1/completions", json=request) as reply:
        if reply.status_code != 200:
            raise RuntimeError(f"{reply.status_code}: {(await reply.aread()).decode()[:200]}")
        async for line in reply.aiter_lines():
            if not line.startswith("data: "):
                continue
            pause, last = time.monotonic() - last, time.monotonic()
            if first is None:
                first = pause
            else:
                longest = max(longest, pause)
            if line == "data: [DONE]":
                return text, reason, tokens, first, longest
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
        self.done, self.tokens, self.failed, self.broken, self.changed = 0, 0, [], 0, []
        self.pauses = [[] for _ in urls]
        self.firsts = []
        self.stopping = False
        self.down = set()  # frontends that were killed, until they are ready again

    async def stream(self, idx):
        rng = random.Random(idx)
        which = idx % len(self.urls)
        # Without TLS: reading the machine's certificates, once a stream, would stop all of them for a second.
        async with httpx.AsyncClient(timeout=300, verify=False) as client:
            while not self.stopping:
                number = rng.randrange(len(self.requests))
                try:
                    text, reason, tokens, first, longest = await ask(client, self.urls[which], self.requests[number])
                except (httpx.HTTPError, RuntimeError) as error:
                    if which in self.down:
                        self.broken += 1
                        while which in self.down and not self.stopping:
                            await asyncio.sleep(0.1)
                    else:
                        self.failed.append(f"request {number} of frontend {which}: {error!r}")
                    continue
                self.done += 1
                self.tokens += tokens or 0
                self.pauses[which].append(longest)
                self.firsts.append(first)
                if (text, reason, tokens) != self.expected[number]:
                    self.changed.append(number)


class Cluster:
    """etcd, runners and frontends on this machine."""

    def __init__(self, args, folder):
        self.folder = folder
        port, peer_port = free_port(), free_port()
        self.etcd_url = f"http://127.0.0.1:{port}"
        peer = f"http://127.0.0.1:{peer_port}"
        self.etcd_address = f"127.0.0.1:{port}"
        self.etcd = Process(folder / "etcd.log", "etcd", "--name=faults", f"--data-dir={folder}/etcd",
                            f"--listen-client-urls={self.etcd_url}", f"--advertise-client-urls={self.etcd_url}",
                            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
                            f"--initial-cluster=faults={peer}", "--logger=zap", "--log-level=error")
        self.runners = [Process(folder / f"runner-{i}.log", args.binary, "runner", "--model", args.model, "--adapters",
                                args.adapters, "--threads", args.threads, "--rpc-port", free_port(), "--etcd",
                                self.etcd_address, "--quiet") for i in range(args.runners)]
        self.addresses = [f"127.0.0.1:{free_port()}" for _ in range(args.frontends)]
        self.frontends = [Process(folder / f"frontend-{i}.log", args.binary, "frontend", "--model", args.model, "--etcd",
                                  self.etcd_address, "--port", address.split(":")[1], "--admin-key", ADMIN_KEY,
                                  "--request-log", "false") for i, address in enumerate(self.addresses)]
        self.urls = [f"http://{address}" for address in self.addresses]
        self.binary = args.binary
        self.client = httpx.AsyncClient(timeout=5)

    async def start(self):
        self.etcd.start()
        await until(lambda: self.records("graft/"), "etcd does not answer")
        subprocess.run([self.binary, "cluster", "init", "--etcd", self.etcd_address], check=True,
                       stdout=subprocess.DEVNULL)
        for process in self.runners + self.frontends:
            process.start()
        for url in self.urls:
            await wait_ready(url)
        await until(self.all_runners_are_up, "not all runners are up")
        await until(self.leader, "nobody leads")

    def end(self):
        for process in self.frontends + self.runners + [self.etcd]:
            process.end()

    async def records(self, prefix):
        """Keys and values in etcd; true also where there are none."""
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        body = {"key": base64.b64encode(prefix.encode()).decode(), "range_end": base64.b64encode(end.encode()).decode()}
        reply = await self.client.post(self.etcd_url + "/v3/kv/range", json=body)
        reply.raise_for_status()
        return {"": ""} | {base64.b64decode(item["key"]).decode(): base64.b64decode(item.get("value", "")).decode()
                           for item in reply.json().get("kvs", [])}

    async def all_runners_are_up(self):
        records = await self.records("graft/runners/")
        states = [json.loads(text) for key, text in records.items() if key]
        return sum(not state["draining"] for state in states) == len(self.runners)

    async def leader(self):
        """The number of the frontend that leads, counted from 1; 0: nobody does."""
        holder = (await self.records("graft/leader")).get("graft/leader")
        return self.addresses.index(holder) + 1 if holder else 0


class Faults:
    """What happens to the cluster, and what was seen besides the streams."""

    def __init__(self, args, cluster, load):
        self.args, self.cluster, self.load = args, cluster, load
        self.rng = random.Random(3)
        self.seen = {"faults": 0}

    async def run(self):
        end = time.monotonic() + self.args.seconds
        await asyncio.sleep(min(self.args.every, self.args.seconds / 4))
        try:
            if self.args.fault in (*RUNNER_FAULTS, "mixed"):
                await self.hurt_runners(end)
            else:
                await getattr(self, self.args.fault.replace("-", "_"))()
            await asyncio.sleep(max(0.0, end - time.monotonic()))
        finally:
            self.load.stopping = True

    async def hurt_runners(self, end):
        while True:
            victim = self.rng.choice(self.cluster.runners)
            fault = self.args.fault if self.args.fault != "mixed" else self.rng.choice(sorted(RUNNER_FAULTS))
            self.seen["faults"] += 1
            victim.send(RUNNER_FAULTS[fault])
            if fault == "stop":
                await asyncio.sleep(STOPPED_SECONDS)
                victim.send(signal.SIGCONT)
            else:
                await victim.ended()
                victim.start()
            if time.monotonic() + self.args.every > end:
                return
            await asyncio.sleep(self.args.every)

    async def upgrade(self):
        codes, seconds = [], []
        for runner in self.cluster.runners:
            began = time.monotonic()
            self.seen["faults"] += 1
            runner.send(signal.SIGTERM)
            codes.append(await runner.ended())
            seconds.append(round(time.monotonic() - began, 1))
            runner.start()
            await until(self.cluster.all_runners_are_up, "the new runner is not up")
            await asyncio.sleep(1)
        self.seen |= {"exit_codes": codes, "drain_s": seconds}
        if any(codes):
            self.load.failed.append(f"runners ended with {codes}")

    async def away(self, hurt, heal):
        hurt()
        self.seen["faults"] += 1
        began = time.monotonic()
        await asyncio.sleep(min(self.args.away, 10) / 2)
        reply = await self.change()
        self.seen["change_while_away"] = f"{reply.status_code}: {reply.text[:120]}"
        if reply.status_code != 503:
            self.load.failed.append("a change was not refused while etcd was away")
        await asyncio.sleep(max(0.0, self.args.away - (time.monotonic() - began)))
        heal()
        began = time.monotonic()

        async def changes():
            return (await self.change()).status_code == 200
        await until(changes, "no change is taken though etcd is back")
        self.seen["changes_taken_again_after_s"] = round(time.monotonic() - began, 2)

    async def change(self):
        name = sorted(os.listdir(self.args.adapters))[0]
        async with httpx.AsyncClient(timeout=60, headers={"Authorization": f"Bearer {ADMIN_KEY}"}) as client:
            return await client.post(self.cluster.urls[0] + "/v1/load_lora_adapter",
                                     json={"lora_name": "loaded-meanwhile", "lora_path": name})

    async def etcd_stop(self):
        etcd = self.cluster.etcd
        await self.away(lambda: etcd.send(signal.SIGSTOP), lambda: etcd.send(signal.SIGCONT))

    async def etcd_kill(self):
        etcd = self.cluster.etcd
        await self.away(etcd.end, etcd.start)

    async def frontend(self):
        leader = await self.cluster.leader()
        await self.kill_frontend(next(i for i in range(len(self.cluster.urls)) if i != leader - 1))

    async def kill_frontend(self, which, meanwhile=None):
        frontend = self.cluster.frontends[which]
        self.load.down.add(which)
        self.seen["faults"] += 1
        frontend.end()
        killed = time.monotonic()
        if meanwhile:
            await meanwhile(killed)
        await asyncio.sleep(max(0.0, DOWN_SECONDS - (time.monotonic() - killed)))
        frontend.start()
        await wait_ready(self.cluster.urls[which])
        self.load.down.discard(which)

    async def other_leads(self, former, since):
        async def other():
            now = await self.cluster.leader()
            return now not in (0, former)
        await until(other, "nobody else leads", every=0.05)
        self.seen["new_leader_after_s"] = round(time.monotonic() - since, 2)
        if self.seen["new_leader_after_s"] > 5:
            self.load.failed.append("there was no new leader within 5 s")

    async def leader_kill(self):
        leader = await self.cluster.leader()
        await self.kill_frontend(leader - 1, lambda killed: self.other_leads(leader, killed))

    async def leader_stop(self):
        leader = await self.cluster.leader()
        frontend = self.cluster.frontends[leader - 1]
        self.seen["faults"] += 1
        frontend.send(signal.SIGSTOP)
        began = time.monotonic()
        await self.other_leads(leader, began)
        await asyncio.sleep(max(0.0, LEADER_STOPPED_SECONDS - (time.monotonic() - began)))
        frontend.send(signal.SIGCONT)
        await asyncio.sleep(2)
        if await self.cluster.leader() == leader:
            self.load.failed.append("a leader that was stopped leads on though another was elected")


async def re_prefill_seconds(args, client, url, requests, answers):
    """How long one process takes to compute anew the streams of a runner, each with the tokens of a whole answer."""
    longest = sorted(zip(requests, answers), key=lambda pair: -(pair[1][2] or 0))
    moved = [longest[i % len(longest)] for i in range(-(-args.streams // args.runners))]
    # A number of its own stands before each, so that the prefix cache has none of them.
    asked = [{**request, "prompt": f"{i} {request['prompt']}{answer[0]}", "max_tokens": 1}
             for i, (request, answer) in enumerate(moved)]
    began = time.monotonic()
    await asyncio.gather(*(ask(client, url, request) for request in asked))
    return time.monotonic() - began


async def reference(args, requests, folder):
    """The answers of one process, and see re_prefill_seconds."""
    port = free_port()
    server = Process(folder / "single.log", args.binary, "serve", "--model", args.model, "--adapters", args.adapters,
                     "--port", port, "--threads", args.threads).start()
    try:
        await wait_ready(f"http://127.0.0.1:{port}")
        async with httpx.AsyncClient(timeout=300) as client:
            url = f"http://127.0.0.1:{port}"
            answers = [(await ask(client, url, request))[:3] for request in requests]
            return answers, await re_prefill_seconds(args, client, url, requests, answers)
    finally:
        server.end()


def pauses_of(pauses):
    pauses = sorted(pauses) or [0.0]
    return {"median": round(statistics.median(pauses), 3), "max": round(pauses[-1], 3)}


async def main(args, folder):
    models = ["base"] + sorted(os.listdir(args.adapters))
    requests = requests_of(models, args.requests, args.tokens)
    print(f"asking one process for {len(requests)} answers; logs are in {folder}", flush=True)
    expected, re_prefill_s = await reference(args, requests, folder)
    cluster = Cluster(args, folder)
    try:
        await cluster.start()
        load = Load(cluster.urls, requests, expected)
        faults = Faults(args, cluster, load)
        began = time.monotonic()
        await asyncio.gather(faults.run(), *(load.stream(i) for i in range(args.streams)))
        seconds = time.monotonic() - began
    finally:
        cluster.end()
    result = {"fault": args.fault, "seconds": round(seconds, 1), "streams": args.streams, "runners": args.runners,
              "frontends": args.frontends, **faults.seen, "answers": load.done, "failed": len(load.failed),
              "changed": len(load.changed), "broken_by_killed_frontend": load.broken,
              "tokens_per_second": round(load.tokens / seconds, 1),
              "re_prefill_s": round(re_prefill_s, 3), "first_piece_s": pauses_of(load.firsts),
              "longest_pause_s": pauses_of(sum(load.pauses, [])),
              "longest_pause_s_by_frontend": [pauses_of(pauses) for pauses in load.pauses]}
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
    parser.add_argument("--frontends", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="kernel threads of each runner")
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--requests", type=int, default=45, help="different requests")
    parser.add_argument("--tokens", type=int, default=200, help="of the longest answer")
    parser.add_argument("--fault", default="kill",
                        choices=[*sorted(RUNNER_FAULTS), "mixed", "upgrade", "etcd-stop", "etcd-kill", "frontend",
                                 "leader-kill", "leader-stop"])
    parser.add_argument("--every", type=float, default=10, help="seconds between two faults, and before the first")
    parser.add_argument("--away", type=float, default=60, help="seconds that etcd is away")
    parser.add_argument("--seconds", type=float, default=0,
                        help="of the whole; 0: 600 for a runner's faults, 30 more than the fault takes for others")
    parser.add_argument("--folder", help="for logs and etcd's data; left there. Else one of its own, removed")
    parser.add_argument("--json")
    given = parser.parse_args()
    if given.seconds == 0:
        lasting = {"etcd-stop": given.away, "etcd-kill": given.away}
        on_runners = given.fault in (*RUNNER_FAULTS, "mixed")
        given.seconds = 600 if on_runners else 30 + given.every + lasting.get(given.fault, 10)
    if given.folder:
        pathlib.Path(given.folder).mkdir(parents=True, exist_ok=True)
        sys.exit(asyncio.run(main(given, pathlib.Path(given.folder))))
    with tempfile.TemporaryDirectory(prefix="graft_faults_") as own:
        sys.exit(asyncio.run(main(given, pathlib.Path(own))))
