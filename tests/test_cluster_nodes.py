"""An etcd of three nodes behind TLS, two frontends and one runner that takes one request at a time."""

import concurrent.futures
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request

import openai
import pytest

from conftest import ADMIN_KEY, DEMO, binary, free_port
from etcd_peers import Relay
from test_cluster import SMALL, Process, make_authority

pytestmark = pytest.mark.skipif(
    shutil.which("etcd") is None or
    not os.path.exists(os.path.join(os.path.dirname(binary()), "libgraft_cluster.so")),
    reason="without etcd, or built without gRPC")


class Node:
    """One etcd of several, which ask their clients for certificates."""

    def __init__(self, folder, name, authority, relays):
        self.name, self.folder, self.authority = name, folder, authority
        self.port, self.peer_port = free_port(), free_port()
        self.relay = Relay(relays, self.peer_port)
        relays.append(self.relay)
        self.process = None

    def start(self, nodes):
        certificate, url = self.authority, f"https://127.0.0.1:{self.port}"
        peer, told = (f"http://127.0.0.1:{port}" for port in (self.peer_port, self.relay.port))
        members = ",".join(f"{node.name}=http://127.0.0.1:{node.relay.port}" for node in nodes)
        self.process = subprocess.Popen(
            ["etcd", f"--name={self.name}", f"--data-dir={self.folder / self.name}", f"--listen-client-urls={url}",
             f"--advertise-client-urls={url}", f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={told}",
             f"--initial-cluster={members}", f"--cert-file={certificate / 'cert.pem'}",
             f"--key-file={certificate / 'key.pem'}", f"--trusted-ca-file={certificate / 'ca.pem'}",
             "--client-cert-auth", "--logger=zap", "--log-level=error"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self):
        self.process.kill()
        self.process.wait()


class Nodes:
    def __init__(self, folder):
        self.ours, self.theirs = (make_authority(folder / name, name) for name in ("ours", "theirs"))
        relays = []
        self.etcds = [Node(folder, f"node{i}", self.ours, relays) for i in range(3)]
        for node in self.etcds:
            node.start(self.etcds)
        deadline = time.monotonic() + 120
        while (made := self.init(self.ours)).returncode != 0:
            assert time.monotonic() < deadline, made.stderr
        self.runner = Process("runner", "--model", DEMO / "base", "--adapters", DEMO / "adapters", "--rpc-port", free_port(),
                              "--requests-max", 1, *self.flags(self.ours), *SMALL, "--quiet").start()
        self.ports = [free_port(), free_port()]
        self.frontends = [Process("frontend", "--model", DEMO / "base", "--port", port, "--admin-key", ADMIN_KEY,
                                  *self.flags(self.ours), "--quiet").start() for port in self.ports]
        for frontend in self.frontends:
            frontend.wait_for("is up")
            frontend.wait_for("frontend of")

    def flags(self, authority, first=0):
        nodes = self.etcds[first:] + self.etcds[:first]
        return ("--etcd", ",".join(f"127.0.0.1:{node.port}" for node in nodes), "--etcd-ca", authority / "ca.pem",
                "--etcd-cert", authority / "cert.pem", "--etcd-key", authority / "key.pem")

    def init(self, authority):
        return subprocess.run([binary(), "cluster", "init", *map(str, self.flags(authority))], capture_output=True,
                              text=True, timeout=120)

    def ask(self, model, i, which):
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.ports[which]}/v1", api_key="none", max_retries=0,
                               timeout=120)
        return client.completions.create(model=model, prompt="It was", max_tokens=8 + i, temperature=0).choices[0].text

    def load(self, name, path, which):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.ports[which]}/v1/load_lora_adapter",
            f'{{"lora_name": "{name}", "lora_path": "{path}"}}'.encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {ADMIN_KEY}"})
        # While the nodes that live elect a leader, changes are refused with 503 like those of an etcd that is away.
        deadline = time.monotonic() + 120
        while True:
            try:
                with urllib.request.urlopen(request, timeout=120) as reply:
                    return reply.status
            except urllib.error.HTTPError as error:
                if error.code != 503 or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    running = Nodes(tmp_path_factory.mktemp("nodes"))
    yield running
    codes = [process.stop(signal.SIGTERM) for process in [*running.frontends, running.runner]]
    for node in running.etcds:
        node.kill()
    assert codes == [0] * 3, "".join(process.log() for process in [*running.frontends, running.runner])


def test_an_etcd_of_another_authority_is_refused_with_a_sentence(nodes):
    refused = nodes.init(nodes.theirs)
    assert refused.returncode != 0
    assert "certificate and the CA match" in refused.stderr + refused.stdout


def test_frontends_that_race_for_one_slot_are_all_served(nodes):
    asked = [(model, i, which) for i in range(4) for model in ("base", "austen") for which in (0, 1)]
    with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
        answers = dict(zip(asked, pool.map(lambda one: nodes.ask(*one), asked)))
    for model, i, which in asked:
        assert answers[model, i, which] == nodes.ask(model, i, 0)


def test_a_node_that_is_cut_off_from_the_others_is_followed_by_nobody(nodes):
    """It answers still, and knows nothing of what the others agree on."""
    port = free_port()
    follower = Process("frontend", "--model", DEMO / "base", "--port", port, *nodes.flags(nodes.ours, first=2),
                       "--quiet").start()
    follower.wait_for("frontend of")
    nodes.etcds[2].relay.cut()
    try:
        # It says so, and follows the others.
        follower.wait_for("the cluster stays as it was last known")
        follower.wait_for("etcd is heard again")
        assert nodes.load("while-one-is-cut-off", "austen", 0) == 200
        nodes.ports.append(port)
        assert nodes.ask("while-one-is-cut-off", 0, 2) == nodes.ask("austen", 0, 0)
    finally:
        nodes.etcds[2].relay.heal()
        del nodes.ports[2:]
        follower.stop(signal.SIGTERM)


def test_serving_and_changes_go_on_when_a_node_is_killed(nodes):
    before = nodes.ask("austen", 0, 0)
    nodes.etcds[0].kill()
    assert nodes.ask("austen", 0, 1) == before
    assert nodes.load("while-two-live", "austen", 0) == 200
    # Who has just been told that it is registered serves it, whoever of the runners has loaded it by then.
    assert nodes.ask("while-two-live", 0, 0) == before
    nodes.frontends[1].send(signal.SIGTERM)
    assert nodes.frontends[1].process.wait(60) == 0
    again = Process(*nodes.frontends[1].args[1:]).start()
    nodes.frontends[1] = again
    again.wait_for("is up")
    assert nodes.ask("while-two-live", 0, 1) == before
