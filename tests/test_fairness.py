"""Noisy neighbours over real HTTP, with the openai client: one tenant floods a server, another one asks for little. No
time is measured: what is looked at is how much of the flood was answered when the other one had all its answers."""

import json
import os
import re
import threading
import urllib.request

import openai
import pytest
from conftest import LONG_TESTS, Server, binary
from test_cluster import Frontend, Runner

KEYS = [{"key": "flood-key", "tenant": "flood", "adapters": ["*"]},
        {"key": "calm-key", "tenant": "calm", "adapters": ["*"]}]
LONG = "It is a truth universally acknowledged, that " * 4


@pytest.fixture
def keys(tmp_path):
    path = tmp_path / "keys.json"
    path.write_text(json.dumps(KEYS))
    return path


class Flood:
    """So many requests at once, each of its own thread."""

    def __init__(self, server, count, model="base", **params):
        self.answers, self.refusals = [], []
        params = {"model": model, "prompt": LONG, "max_tokens": 150, "temperature": 0, **params}
        self.threads = [threading.Thread(target=self.ask, args=(server.client("flood-key"), params, i))
                        for i in range(count)]
        for thread in self.threads:
            thread.start()

    def ask(self, client, params, i):
        model = params["model"] if isinstance(params["model"], str) else params["model"][i % len(params["model"])]
        try:
            self.answers.append(client.completions.create(**{**params, "model": model},
                                                          extra_body={"ignore_eos": True}))
        except openai.APIStatusError as error:
            self.refusals.append(error)

    def wait(self):
        for thread in self.threads:
            thread.join()


def wait_until_running(server, count):
    while server.metric("graft_requests_running") < count:
        pass


def ask(server, model="base", **params):
    return server.client("calm-key").completions.create(
        **{"model": model, "prompt": "Alice was", "max_tokens": 4, "temperature": 0, **params})


@pytest.mark.parametrize("params", [{}, {"n": 16}], ids=["requests", "choices"])
def test_a_flood_does_not_hold_up_another_tenant(keys, params):
    with Server("--api-keys", keys, "--sequences-max", 8) as server:
        alone = ask(server).choices[0].text
        flood = Flood(server, 3 if params else 32, **params)
        wait_until_running(server, 8)
        for _ in range(4):
            assert ask(server).choices[0].text == alone
        # First come, first served, all of the flood would have been before it.
        assert len(flood.answers) <= len(flood.threads) // 2
        assert server.metric("graft_preemptions_total") >= 1
        flood.wait()
        # Those who had to make place have the answers of the others, which had not.
        texts = {choice.text for answer in flood.answers for choice in answer.choices}
        assert len(flood.answers) == len(flood.threads) and len(texts) == 1


@pytest.mark.skipif(not LONG_TESTS, reason="engine_test has the same of one thread")
def test_who_wants_half_of_the_tokens_gets_it(keys):
    with Server("--api-keys", keys, "--sequences-max", 8, "--context-tokens-max", 256) as server:
        flood = Flood(server, 64, prompt="Alice", max_tokens=200)
        wait_until_running(server, 8)
        before = len(flood.answers)
        # In one request, so that all of it is there at once.
        ask(server, prompt="Alice", n=10, max_tokens=200, extra_body={"ignore_eos": True})
        # While the calm tenant had 10 answers the flood had about as many of the same size, and those that ran already.
        assert len(flood.answers) - before <= 10 / 0.45 + 8
        flood.wait()
        assert len(flood.answers) == 64


@pytest.mark.skipif(not LONG_TESTS, reason="engine_test has the same of one thread")
def test_cold_adapters_without_room_do_not_hold_up_another_tenant(keys):
    with Server("--api-keys", keys, "--adapters-max", 2, "--tune", "read-at-start-gib=0") as server:
        flood = Flood(server, 32, model=["austen", "carroll", "doyle", "montgomery"], prompt="Alice")
        wait_until_running(server, 1)
        for model in ("base", "doyle", "base"):
            ask(server, model)
        assert len(flood.answers) <= 28
        flood.wait()
        assert not flood.refusals


def test_a_full_queue_has_a_place_for_who_has_few(keys):
    with Server("--api-keys", keys, "--sequences-max", 4, "--requests-max", 16) as server:
        flood = Flood(server, 16, max_tokens=400)
        while server.metric("graft_requests_running") + server.metric("graft_requests_waiting") < 16:
            assert not flood.answers, "the flood was never whole"
        ask(server)
        flood.wait()
        # The place was that of one of the flood's requests, which may try again.
        refused, = flood.refusals
        assert isinstance(refused, openai.RateLimitError)
        assert int(refused.response.headers["Retry-After"]) >= 1
        assert len(flood.answers) == 15


def running(frontend):
    """Sequences that the frontend's runners compute, as each said last."""
    with urllib.request.urlopen(frontend.url + "/metrics", timeout=60) as reply:
        return sum(float(value) for value in re.findall(r"^graft_runner_requests_running{.*} (\S+)$", reply.read().decode(),
                                                        re.MULTILINE))


@pytest.mark.skipif(not os.path.exists(os.path.join(os.path.dirname(binary()), "libgraft_cluster.so")),
                    reason="built without gRPC")
@pytest.mark.parametrize("params", [{}, pytest.param({"n": 16}, marks=pytest.mark.skipif(
    not LONG_TESTS, reason="one process has the same"))], ids=["requests", "choices"])
def test_a_flood_of_a_cluster_does_not_hold_up_another_tenant(keys, params):
    """Each runner shares by what the frontend tells it of tenants, whichever of them the flood is on."""
    runners = [Runner("--sequences-max", 4).start() for _ in range(2)]
    for runner in runners:
        runner.wait_for("runner of")
    frontend = Frontend(runners, "--api-keys", keys).start()
    frontend.wait_for("is up", count=2)
    frontend.wait_for("frontend of")
    alone = ask(frontend).choices[0].text
    flood = Flood(frontend, 3 if params else 40, **params)
    while running(frontend) < 8:
        assert not flood.refusals
    for _ in range(4):
        assert ask(frontend).choices[0].text == alone
    assert len(flood.answers) <= len(flood.threads) // 2
    flood.wait()
    texts = {choice.text for answer in flood.answers for choice in answer.choices}
    assert len(flood.answers) == len(flood.threads) and len(texts) == 1
    assert [process.stop() for process in (frontend, *runners)] == [0] * 3


def test_priority_goes_first_within_a_key(keys):
    with Server("--api-keys", keys, "--sequences-max", 1) as server:
        first = Flood(server, 1, max_tokens=200)
        wait_until_running(server, 1)
        order = []

        def later(name, priority):
            # The one is so much longer that the other's thread is sure to come first here, too.
            ask(server, max_tokens=4 if name == "urgent" else 200, extra_body={"priority": priority, "ignore_eos": True})
            order.append(name)

        threads = []
        for name, priority in (("later", 0), ("urgent", -1)):
            threads.append(threading.Thread(target=later, args=(name, priority)))
            threads[-1].start()
            # Both wait: the calm tenant has no place, as the flood has one alone.
            while server.metric("graft_requests_waiting") < len(threads):
                pass
        for thread in threads:
            thread.join()
        assert order == ["urgent", "later"]
        first.wait()
