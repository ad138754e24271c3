"""Loads for any server of OpenAI's completions, and what they met: prompts as token ids, streamed answers of a fixed
length, in closed loops or at given times. Several processes ask, so that one core does not bound the load.

A chain is a list of `Ask`s that follow one another, each after the end of the one before. A client that answers
nothing, ends early or has another number of tokens is an error, and is counted. Python alone.
"""

import asyncio
import dataclasses
import json
import multiprocessing
import re
import time
import urllib.parse

TAIL_BYTES = 2048  # of an answer, in which its usage stands
READ_BYTES = 1 << 16


@dataclasses.dataclass
class Ask:
    model: str
    prompt: list  # token ids
    tokens: int  # of the answer, exactly


@dataclasses.dataclass
class Heard:
    """One answer. Times are of this machine's monotonic clock; `first` is 0 where no token came."""
    asked: float
    first: float = 0.0
    end: float = 0.0
    tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    cut: bool = False  # the load's time was over
    error: str = ""


@dataclasses.dataclass
class Load:
    """`chains` in order, of which `at_once` are under way; or each at its time in `begins`, in seconds. It ends after
    `seconds_max`: what runs then is cut, what was not asked is left out."""
    chains: list
    at_once: int = 0
    begins: list = None
    seconds_max: float = 1e9


def request_bytes(ask, host):
    body = json.dumps({"model": ask.model, "prompt": ask.prompt, "max_tokens": ask.tokens, "temperature": 0,
                       "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}).encode()
    return (f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n").encode() + body


class Answer(asyncio.Protocol):
    """Reads one answer into `heard`; `done` is set at its end. Work per piece of bytes does not grow with the answer."""

    def __init__(self, request, heard):
        self.request, self.heard = request, heard
        self.tail, self.events, self.transport = b"", 0, None
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport
        transport.write(self.request)

    def data_received(self, data):
        seen = self.tail[-6:] + data  # an event's first bytes may lie in two pieces
        count = seen.count(b"data: {")
        if count and not self.heard.first:
            self.heard.first = time.monotonic()
        self.events += count
        self.tail = (self.tail + data)[-TAIL_BYTES:]
        if b"data: [DONE]" in self.tail[-len(data) - 16:]:
            self.finish()

    def connection_lost(self, unused):
        self.finish()

    def finish(self):
        if not self.done.done():
            self.heard.end = time.monotonic()
            self.done.set_result(None)
            self.transport.close()

    def read_usage(self, ask):
        """What the last event says of the answer, or why it is none."""
        text = self.tail.decode(errors="replace")
        found = {name: int(number) for name, number in
                 re.findall(r'"(prompt_tokens|completion_tokens|cached_tokens)":\s*(\d+)', text)}
        self.heard.tokens = found.get("completion_tokens", 0)
        self.heard.prompt_tokens = found.get("prompt_tokens", 0)
        self.heard.cached_tokens = found.get("cached_tokens", 0)
        if "data: [DONE]" not in text or self.heard.tokens != ask.tokens:
            self.heard.error = text[-300:] or "closed without an answer"


async def hear(address, ask, request, deadline):
    heard = Heard(asked=time.monotonic())
    try:
        _, answer = await asyncio.get_running_loop().create_connection(lambda: Answer(request, heard), *address)
    except OSError as error:
        heard.end, heard.error = time.monotonic(), str(error)
        return heard
    done, _ = await asyncio.wait([answer.done], timeout=max(0.0, deadline - time.monotonic()))
    if done:
        answer.read_usage(ask)
    else:
        heard.cut, heard.end, heard.tokens = True, time.monotonic(), answer.events
        answer.transport.abort()
    return heard


async def run_chain(address, chain, deadline, heard):
    for ask, request in chain:
        if time.monotonic() >= deadline:
            return
        heard.append(await hear(address, ask, request, deadline))
        if heard[-1].error:
            return


async def run_share(address, load, start):
    """One process' part of a load, from the moment `start` on: what it heard, and its processor seconds."""
    heard, deadline = [], start + load.seconds_max
    host = f"{address[0]}:{address[1]}"
    chains = [[(ask, request_bytes(ask, host)) for ask in chain] for chain in load.chains]
    await asyncio.sleep(start - time.monotonic())
    used = time.process_time()

    async def worker(left):
        for chain in left:  # one iterator of all workers
            await run_chain(address, chain, deadline, heard)

    async def timed(chain, begin):
        await asyncio.sleep(start + begin - time.monotonic())
        await run_chain(address, chain, deadline, heard)

    if load.begins is None:
        left = iter(chains)
        await asyncio.gather(*(worker(left) for _ in range(load.at_once)))
    else:
        await asyncio.gather(*map(timed, chains, load.begins))
    return heard, time.process_time() - used


def share_process(address, load, start, pipe):
    pipe.send(asyncio.run(run_share(address, load, start)))
    pipe.close()


def shares_of(load, processes):
    """The load's parts, as even as they can be."""
    processes = max(1, min(processes, len(load.chains), load.at_once or len(load.chains)))
    return [dataclasses.replace(load, chains=load.chains[i::processes],
                                begins=load.begins and load.begins[i::processes],
                                at_once=len(range(i, load.at_once, processes))) for i in range(processes)]


def run_load(url, load, processes=4):
    """All that was heard, in the order of its end, and the cores' share that the busiest asking process took."""
    parts = urllib.parse.urlsplit(url)
    # Until all processes have encoded their prompts.
    asks = [ask for chain in load.chains for ask in chain]
    start = time.monotonic() + 0.2 + 4e-5 * len(asks) + 4e-7 * sum(len(ask.prompt) for ask in asks)
    running = []
    for share in shares_of(load, processes):
        ours, theirs = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.Process(target=share_process, args=((parts.hostname, parts.port), share, start, theirs))
        process.start()
        theirs.close()
        running.append((process, ours))
    heard, busiest = [], 0.0
    for process, pipe in running:
        share, seconds = pipe.recv()
        process.join()
        heard += share
        busiest = max(busiest, seconds)
    if not heard:
        raise SystemExit("no request was asked")
    heard.sort(key=lambda one: one.end)
    return heard, busiest / max(1e-9, heard[-1].end - start)


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else None


def figures(rounds):
    """Of loads that ran one after the other: what a row says. Times in milliseconds; a request that failed counts among
    the errors alone, one that was cut has its tokens and its first token."""
    heard = [one for load in rounds for one in load if not one.error]
    seconds = sum(max(one.end for one in load) - min(one.asked for one in load) for load in rounds)
    whole = [one for one in heard if not one.cut]
    firsts = [1e3 * (one.first - one.asked) for one in heard if one.first]
    gaps = [1e3 * (one.end - one.first) / (one.tokens - 1) for one in whole if one.tokens > 1]
    errors = [one.error for load in rounds for one in load if one.error]
    prompt_tokens = sum(one.prompt_tokens for one in whole)
    tokens = sum(one.tokens for one in heard)
    return {"requests": len(whole), "cut": len(heard) - len(whole), "errors": len(errors), "first_error": "".join(errors[:1]),
            "seconds": seconds, "tokens_per_second": tokens / seconds, "requests_per_second": len(whole) / seconds,
            "first_token_ms": {"p50": percentile(firsts, 0.5), "p99": percentile(firsts, 0.99)},
            "token_ms": {"p50": percentile(gaps, 0.5), "p99": percentile(gaps, 0.99)},
            "cached_share": sum(one.cached_tokens for one in whole) / max(1, prompt_tokens)}
