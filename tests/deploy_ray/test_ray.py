"""deploy/ray on two Ray nodes of this machine, with etcd, a frontend and certificates. Streams lose nothing while a
runner, its actor and a whole node are killed. The stage `ray` of `make test-all` runs this, in build/venv-ray."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import pytest
from ray.cluster_utils import Cluster

from conftest import DEMO, ROOT, Server, binary, free_port, running_etcd
from test_cluster import LITTLE, SMALL, Frontend, make_authority, run_streams

PATIENCE_S = 180
# Ray learns of a dead node after 0.6 s in place of 15.
RAY = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_health_check_initial_delay_ms": "1000", "RAY_health_check_period_ms": "200",
       "RAY_health_check_timeout_ms": "5000", "RAY_health_check_failure_threshold": "3"}
PROGRAM = ROOT / "deploy" / "ray" / "runners.py"
MODEL = ("--model", DEMO / "base", "--adapters", DEMO / "adapters", "--device", "cpu", *LITTLE, "--pool-gib", 0.1,
         "--quiet")


def eventually(holds, what):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError(what() if callable(what) else what)


def parents():
    """Of every process that runs: its parent."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                state, parent = open(f"/proc/{entry}/stat").read().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if state != "Z":
                found[int(entry)] = int(parent)
    return found


def family(pid):
    """A process and all below it, youngest last."""
    of = parents()
    found = [pid]
    for one in found:
        found += [child for child, parent in of.items() if parent == one]
    return found


def lives(pid):
    return pid in parents()


class Ray:
    """Two nodes, each with two CPUs and two GPUs, as far as Ray is told."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="ray")  # a socket's path has 107 bytes at most
        os.environ.update({**RAY, "RAY_TMPDIR": self.folder})
        node = {"num_cpus": 2, "num_gpus": 2, "object_store_memory": 80 << 20}
        self.nodes = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
        self.second = self.nodes.add_node(**node)

    def run(self, *args, code=0):
        done = subprocess.run([sys.executable, PROGRAM, args[0], "--address", self.nodes.address, *map(str, args[1:])],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S)
        assert code is None or done.returncode == code, done.stdout
        return done.stdout

    def up(self, etcd, *args, options=(), code=0):
        return self.run("up", "--etcd", f"127.0.0.1:{etcd}", "--graft", binary(), *args, "--", *MODEL, *options,
                        code=code)

    def raylet(self, node):
        [raylet] = node.all_processes["raylet"]
        return raylet.process.pid

    def runners(self):
        """Processes of `graft runner`, by the raylets that they are below."""
        found = {}
        for node in [self.nodes.head_node, self.second]:
            raylet = self.raylet(node)
            for pid in family(raylet):
                command = open(f"/proc/{pid}/cmdline").read().split("\0") if lives(pid) else []
                if command[:2] == [binary(), "runner"]:
                    found[pid] = raylet
        return found

    def close(self):
        self.nodes.shutdown()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def ray_nodes():
    nodes = Ray()
    yield nodes
    nodes.close()


@pytest.fixture(scope="module")
def etcd(tmp_path_factory):
    with running_etcd(tmp_path_factory.mktemp("etcd")) as port:
        subprocess.run([binary(), "cluster", "init", "--etcd", f"127.0.0.1:{port}"], check=True)
        yield port


@pytest.mark.parametrize("args, wanted", [
    (("--gpus-per-runner", 1, "--runners", 5, "--place-seconds", 1),
     "no room: 5 runners need 5 CPUs and 5 GPUs. 2 nodes have 4 CPUs and 4 GPUs"),
    (("--strategy", "STRICT_SPREAD", "--runners", 3, "--place-seconds", 1), "each on a node of its own"),
    (("--runners", 1, "--graft", "/nowhere/graft"), "there is no program /nowhere/graft on .*: install Graft there"),
    (("--runners", 1, "--etcd", f"127.0.0.1:{free_port()}"), "does not answer: is it running"),
])
def test_wrong_input_is_told_and_leaves_nothing(ray_nodes, etcd, args, wanted):
    assert re.search(wanted, text := ray_nodes.up(etcd, *args, code=None)), text
    assert "Traceback" not in text
    assert "no runners named graft" in ray_nodes.run("status", code=1)
    assert not ray_nodes.runners()


def test_a_runner_is_called_by_its_nodes_name_at_a_port_of_those_given(ray_nodes, etcd):
    port = free_port()
    ray_nodes.up(etcd, "--name", "other", "--runners", 1, "--by-name", "--ports", f"{port}-{port}")
    known = subprocess.run([binary(), "cluster", "status", "--etcd", f"127.0.0.1:{etcd}"], capture_output=True,
                           text=True, timeout=PATIENCE_S).stdout
    assert f"runner {socket.gethostname()}:{port}" in known
    text = ray_nodes.up(etcd, "--runners", 1, "--ports", f"{port}-{port}", code=1)
    assert f"no port from {port} to {port} is free" in text, text
    assert "ended with 0\n" in ray_nodes.run("down", "--name", "other")


def test_options_of_the_program_are_not_the_runners(ray_nodes, etcd):
    assert "--rpc-port" in ray_nodes.up(etcd, "--runners", 1, options=("--rpc-port", 7001), code=2)


def test_a_cluster_that_is_not_there_is_told():
    done = subprocess.run([sys.executable, PROGRAM, "status", "--address", f"127.0.0.1:{free_port()}"],
                          capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 1 and "no Ray cluster answers" in done.stderr, done.stderr


@pytest.fixture(scope="module")
def tls(ray_nodes, tmp_path_factory):
    folder = make_authority(tmp_path_factory.mktemp("tls") / "ours", "ours", ray_nodes.nodes.head_node.node_ip_address)
    return "--rpc-cert", folder / "cert.pem", "--rpc-key", folder / "key.pem", "--rpc-ca", folder / "ca.pem"


@pytest.fixture(scope="module")
def single():
    with Server(*SMALL) as running:
        yield running


@pytest.fixture(scope="module")
def frontend(ray_nodes, etcd, tls):
    """A frontend that has seen a runner on each node."""
    text = ray_nodes.up(etcd, "--runners", 2, "--gpus-per-runner", 1, options=tls)
    assert len(re.findall(r"runner \d: serves on \S+ at [\d.]+:\d+", text)) == 2, text
    running = Frontend([], "--etcd", f"127.0.0.1:{etcd}", *tls).start()
    running.wait_for("is up", count=2)
    running.wait_for("frontend of")
    yield running
    assert running.stop() == 0, running.log()


def test_runners_are_on_both_nodes_and_have_their_gpus(ray_nodes, frontend):
    runners = ray_nodes.runners()
    assert len(set(runners.values())) == 2, runners
    for pid in runners:
        assert re.search(r"\0CUDA_VISIBLE_DEVICES=[01]\0", open(f"/proc/{pid}/environ").read())
    assert "are there already" in ray_nodes.up(1, "--runners", 1, code=1)


def back(ray_nodes, frontend, ups):
    """Both serve again, and the frontend knows."""
    frontend.wait_for("is up", count=ups + 1, timeout_s=PATIENCE_S)
    text = ""

    def serve():
        nonlocal text
        text = ray_nodes.run("status", code=None)
        return text.count(": serves on") == 2
    eventually(serve, lambda: text)
    return text


def test_streams_go_on_when_a_runner_is_killed_and_it_comes_back(ray_nodes, single, frontend):
    [victim, other] = ray_nodes.runners()
    ups = frontend.log().count("is up")
    run_streams(frontend, single, lambda: os.kill(victim, signal.SIGKILL))
    assert "ended 1 times" in back(ray_nodes, frontend, ups)
    assert other in ray_nodes.runners() and victim not in ray_nodes.runners()


def test_a_runner_does_not_outlive_its_actor(ray_nodes, single, frontend):
    victim = min(ray_nodes.runners())
    ups = frontend.log().count("is up")
    run_streams(frontend, single, lambda: os.kill(parents()[victim], signal.SIGKILL), count=8)
    eventually(lambda: not lives(victim), "the runner of a dead actor lives")
    back(ray_nodes, frontend, ups)


def test_streams_go_on_when_a_node_is_killed_and_its_runner_is_started_elsewhere(ray_nodes, single, frontend):
    """All of Ray's processes there are killed; the runner is left to end by itself."""
    raylet = ray_nodes.raylet(ray_nodes.second)
    ups = frontend.log().count("is up")
    runners = ray_nodes.runners()
    killed = []

    def kill_node():
        killed.extend(family(raylet))
        for pid in killed:
            if pid not in runners:
                os.kill(pid, signal.SIGKILL)
    assert raylet in runners.values()
    run_streams(frontend, single, kill_node)
    eventually(lambda: not any(map(lives, killed)), "a process of the dead node lives")
    back(ray_nodes, frontend, ups)
    assert list(ray_nodes.runners().values()) == [ray_nodes.raylet(ray_nodes.nodes.head_node)] * 2


def test_down_drains_the_runners_and_leaves_nothing(ray_nodes, frontend):
    runners = list(ray_nodes.runners())
    text = ray_nodes.run("down")
    assert text.count("ended with 0\n") == 2, text
    assert not any(map(lives, runners)) and not ray_nodes.runners()
    assert "there are no runners" in ray_nodes.run("down")
    assert "no runners named graft" in ray_nodes.run("status", code=1)
