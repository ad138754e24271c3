"""How many runners there should be, and runners that go: they are emptied first, and nobody's answer changes."""

import concurrent.futures
import json
import os
import re
import shutil
import threading
import time
import urllib.request

import pytest

from conftest import DEMO, LONG_TESTS, Server, binary
from test_cluster import EVENLY, MODELS, SMALL, Frontend, Runner, answer_of, asked
from test_cluster_etcd import Cluster, eventually

pytestmark = pytest.mark.skipif(not os.path.exists(os.path.join(os.path.dirname(binary()), "libgraft_cluster.so")),
                                reason="built without gRPC")
needs_etcd = pytest.mark.skipif(shutil.which("etcd") is None, reason="without etcd")
PATIENCE_S = 90


@pytest.fixture(scope="module")
def single():
    with Server(*SMALL) as running:
        yield running


def scale(url):
    with urllib.request.urlopen(f"{url}/scale", timeout=60) as reply:
        return json.load(reply)


class Streams:
    """Clients that ask again and again until they are stopped. Their answers are compared afterwards."""

    def __init__(self, clients, models=MODELS, count=6, max_tokens=64):
        self.clients, self.models, self.count, self.max_tokens = clients, models, count, max_tokens
        self.stopped = threading.Event()
        self.got = []

    def _request(self, number):
        return asked(number, self.max_tokens, self.models)

    def _ask(self, which):
        client = self.clients[which % len(self.clients)]
        number = which
        while not self.stopped.is_set():
            self.got.append((number % 12, answer_of(client, self._request(number % 12))))
            number += self.count

    def run_while(self, act):
        with concurrent.futures.ThreadPoolExecutor(self.count) as pool:
            asking = [pool.submit(self._ask, which) for which in range(self.count)]
            try:
                act()
            finally:
                self.stopped.set()
            for one in asking:
                one.result(PATIENCE_S)

    def check(self, single):
        wanted = {number: answer_of(single.client(), self._request(number)) for number in {one for one, _ in self.got}}
        assert len(self.got) >= self.count
        for number, answer in self.got:
            assert answer == wanted[number], self._request(number)


def test_runners_beyond_the_number_wanted_are_emptied(single):
    """Three runners for a load that one carries: within seconds the last two by name are spare, their requests go on at the
    first one, and what comes goes there."""
    runners = [Runner().start() for _ in range(3)]
    for runner in runners:
        runner.wait_for("runner of")
    frontend = Frontend(runners, "--consolidate", "true", *EVENLY).start()
    frontend.wait_for("is up", count=3)
    frontend.wait_for("frontend of")
    streams = Streams([frontend.client()])
    streams.run_while(lambda: frontend.wait_for("requests of runner .* which may go, go on elsewhere", timeout_s=PATIENCE_S))
    streams.check(single)
    # On a busy machine requests take so long that two are wanted as long as they come.
    eventually(lambda: [scale(frontend.url)[f"runners{of}"] for of in ("", "_wanted", "_spare")] == [3, 1, 2],
               "more runners than one are wanted, though nobody asks")
    assert scale(frontend.url)["startup_seconds"] > 0, "the runners say how long they took"
    kept, *spare = sorted(runners, key=lambda one: one.port)
    for runner in spare:
        assert f"runner {runner.address} is to be emptied" in frontend.log()
    served = [len(re.findall(" end=", runner.log())) for runner in spare]
    for i in range(6):
        answer_of(frontend.client(), asked(i, 8))
    kept.wait_for(r"output_tokens=8\b", count=6)
    assert [len(re.findall(" end=", runner.log())) for runner in spare] == served
    assert [one.stop() for one in (frontend, *runners)] == [0] * 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    running = Cluster(tmp_path_factory.mktemp("scaling"))
    yield running
    running.run("down")


@needs_etcd
def test_a_runner_that_is_drained_is_emptied_and_ends_well(single, cluster):
    urls = [f"http://127.0.0.1:{port}" for port in cluster.ports]
    etcd = json.loads((cluster.state / "cluster.json").read_text())["etcd"]
    third = Runner("--etcd", etcd).start()
    third.wait_for("runner of")
    for url in urls:
        eventually(lambda url=url: scale(url)["runners"] == 3, "the frontends do not know three runners")
    # The cluster's own runners have these alone.
    streams = Streams([cluster.client(0), cluster.client(1)], models=("base", "austen", "wells"))
    told = []

    def drain():
        third.wait_for(" end=", count=6)
        told.append(cluster.run("drain", third.address))
    streams.run_while(drain)
    assert f"runner {third.address} has gone" in told[0]
    assert third.process.wait(PATIENCE_S) == 0
    assert "is marked for going" in third.log() and "stopped" in third.log()
    streams.check(single)
    for url in urls:
        eventually(lambda url=url: scale(url)["runners"] == 2, "the frontends count one that has gone")
    assert re.search(r"^\S.*  drain '" + third.address, cluster.run("audit"), re.MULTILINE)
    # Another process in its place is not the one that was marked.
    third.lines.clear()
    third.start().wait_for("runner of")
    for url in urls:
        eventually(lambda url=url: scale(url)["runners"] == 3, "it does not come back")
    time.sleep(1.5)  # longer than between two looks at the mark
    assert third.process.poll() is None and "marked" not in third.log()
    assert third.stop() == 0


@needs_etcd
def test_every_frontend_tells_the_leaders_number(cluster):
    urls = [f"http://127.0.0.1:{port}" for port in cluster.ports]

    def agree():
        told = [scale(url) for url in urls]
        wanted = re.search(r"^wanted: (\d+) runners$", cluster.run("status"), re.MULTILINE)
        return told[0] == told[1] and wanted is not None and int(wanted.group(1)) == told[0]["runners_wanted"] >= 1
    eventually(agree, "the frontends disagree")


@needs_etcd
@pytest.mark.skipif(not LONG_TESTS, reason="the leader looks ten seconds before it names one")
def test_all_frontends_empty_the_runner_that_the_leader_names(single, tmp_path, monkeypatch):
    monkeypatch.setenv("GRAFT_CONSOLIDATE", "true")
    running = Cluster(tmp_path)
    try:
        logs = [running.state / f"frontend-{i}.log" for i in range(2)]
        streams = Streams([running.client(0), running.client(1)], models=("base", "austen", "wells"))

        # A frontend that has no requests there at that moment has nothing to move.
        def is_emptied():
            told = [log.read_text() for log in logs]
            return (all("is to be emptied" in one for one in told) and
                    any(re.search("requests of runner .* which may go, go on elsewhere", one) for one in told))
        streams.run_while(lambda: eventually(is_emptied, "the frontends leave requests where they are",
                                              patience_s=600))
        streams.check(single)
        for port in running.ports:
            now = scale(f"http://127.0.0.1:{port}")
            assert (now["runners"], now["runners_wanted"], now["runners_spare"]) == (2, 1, 1)
        [emptied] = set(re.findall("runner (.*) is to be emptied", "".join(log.read_text() for log in logs)))
        # It has nothing left to finish.
        assert f"runner {emptied} has gone" in running.run("drain", emptied)
    finally:
        running.run("down")


@needs_etcd
def test_a_runner_that_is_not_there_cannot_be_drained(cluster):
    assert "there is no runner 'nobody:1'; `graft cluster status` names those" in cluster.run("drain", "nobody:1", code=1)
