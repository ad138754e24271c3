"""Answers that began with a content that its adapter's name no longer leads to, while the runners that have it die. Each
machine may have a folder of its own, and files are written over."""

import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request

import openai
import pytest

from conftest import ADMIN_KEY, DEMO, LONG_TESTS, Server, binary, free_port, running_etcd
from test_cluster import EVENLY, SMALL, Process, streamed

pytestmark = pytest.mark.skipif(
    shutil.which("etcd") is None or
    not os.path.exists(os.path.join(os.path.dirname(binary()), "libgraft_cluster.so")),
    reason="without etcd, or built without gRPC")
PATIENCE_S = 120


class Machines:
    """An etcd, a frontend, and runners that come and go."""

    def __init__(self, folder, keeps_contents=False):
        self.folder = folder
        self.processes = []
        self.etcd = contextlib.ExitStack()
        self.etcd_address = f"127.0.0.1:{self.etcd.enter_context(running_etcd(folder / 'etcd'))}"
        self.eventually(lambda: subprocess.run([binary(), "cluster", "init", "--etcd", self.etcd_address],
                                               capture_output=True, timeout=60).returncode == 0, "etcd does not answer")
        self.port = free_port()
        self.frontend = self.start("frontend", "--port", self.port, "--admin-key", ADMIN_KEY, "--request-log", "false", *EVENLY,
                                   *(("--adapter-store", folder / "kept") if keeps_contents else ()))

    def start(self, command, *args):
        self.processes.append(Process(command, "--model", DEMO / "base", "--etcd", self.etcd_address, "--quiet",
                                      *args).start())
        return self.processes[-1]

    def runner(self, name, contents, args=()):
        """A machine whose own folder has these adapters of the demo, by their place in it."""
        own = self.folder / name
        own.mkdir(exist_ok=True)
        for place, content in contents.items():
            shutil.copytree(DEMO / "adapters" / content, own / place)
        ups = self.frontend.log().count("is up")
        runner = self.start("runner", "--adapters", own, *SMALL, "--request-log", "false", *args)
        self.frontend.wait_for("is up", count=ups + 1)
        self.frontend.wait_for("frontend of")
        return runner

    def overwrite(self, name, adapter, content):
        """Writes into the files that are there, as a training run does."""
        for file in ("adapter_config.json", "adapter_model.safetensors"):
            with open(self.folder / name / adapter / file, "r+b") as out:
                out.write((DEMO / "adapters" / content / file).read_bytes())
                out.truncate()

    def client(self):
        return openai.OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key="none", max_retries=0, timeout=120)

    def ask(self, model):
        return self.client().completions.create(model=model, prompt="It was", max_tokens=8).choices[0].text

    def serves_on_both(self, model):
        """Whether two runners have had requests; asks for some at once, which go to whoever is most idle."""
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(self.ask, [model] * 4))
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=60) as reply:
            placed = re.findall(r'^graft_placements_total\{.*runner="([^"]+)".*\} [1-9]', reply.read().decode(), re.M)
        return len(set(placed)) == 2

    def load(self, name, path, **more):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/load_lora_adapter",
                                         json.dumps({"lora_name": name, "lora_path": path, **more}).encode(),
                                         {"Content-Type": "application/json", "Authorization": f"Bearer {ADMIN_KEY}"})
        with urllib.request.urlopen(request, timeout=120) as reply:
            return reply.status

    @staticmethod
    def eventually(holds, what):
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, what
            time.sleep(0.05)

    def logs(self):
        return "".join(f"== {process.args[1]}\n{process.log()}" for process in self.processes)

    def end(self):
        for process in self.processes:
            if process.process.poll() is None:
                process.stop()
        self.etcd.close()


@pytest.fixture
def machines(tmp_path):
    started = []

    def make(**options):
        started.append(Machines(tmp_path, **options))
        return started[0]
    yield make
    for one in started:
        one.end()


def asked(i, model):
    return {"model": model, "prompt": f"It was {'a very ' * i}long day, and", "max_tokens": 300, "temperature": 0.9 * (i % 2),
            "seed": 100 + i, "extra_body": {"ignore_eos": True}}


def stream_while(machines, count, disturb):
    """Streams on 'moving', disturbed once all have begun; their ends, which may be errors."""
    pieces = [0] * count

    def run(i):
        def heard():
            pieces[i] += 1
        try:
            return streamed(machines.client(), asked(i, "moving"), heard)
        except openai.APIError as error:
            return str(error)

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        running = [pool.submit(run, i) for i in range(count)]
        machines.eventually(lambda: min(pieces) >= 2 or any(one.done() for one in running), "they do not begin")
        disturb()
        machines.unfinished = sum(not one.done() for one in running)
        return [one.result() for one in running]


@pytest.fixture(scope="module")
def wanted():
    """What one process answers with the content that all answers here begin with, under a name that no runner has."""
    with Server(*SMALL) as single:
        return [streamed(single.client(), asked(i, "austen"), lambda: None) for i in range(6)]


def replace_then_kill(one, first, start_another, path):
    """The only runner is killed after 'moving' has come to lead to another content, and another comes up."""
    def disturb():
        assert one.load("moving", path, load_inplace=True) == 200
        first.stop(signal.SIGKILL)
        start_another()
    return stream_while(one, 3, disturb)


def test_a_runner_goes_on_with_what_its_name_led_to_before(machines, wanted):
    """The content is in no folder any more, and in the other runner's memory alone."""
    one = machines()
    first, _ = one.runner("shared", {"deep/mine": "austen"}), one.runner("shared", {})
    assert one.load("moving", "deep/mine") == 200
    one.eventually(lambda: one.ask("moving"), "it is not served")
    one.eventually(lambda: one.serves_on_both("moving"), "streams are to be on both")

    def disturb():
        one.overwrite("shared", "deep/mine", "wells")
        assert one.load("moving", "deep/mine", load_inplace=True) == 200
        first.stop(signal.SIGKILL)
    assert stream_while(one, 6, disturb) == wanted, one.logs()
    # On a machine that is busy all streams of a runner may have ended before it died.
    assert one.unfinished <= 3 or "go on elsewhere" in one.frontend.log()


def test_a_content_comes_from_a_frontend_that_kept_it(machines, wanted):
    """All runners that have had it are gone, and its files are written over."""
    one = machines(keeps_contents=True)
    first = one.runner("first", {"deep/mine": "austen"})
    assert one.load("moving", "deep/mine") == 200
    one.frontend.wait_for("was fetched from")

    def start_another():
        one.overwrite("first", "deep/mine", "wells")
        one.runner("second", {}, args=("--adapter-store", one.folder / "second-store"))
    shutil.copytree(DEMO / "adapters" / "wells", one.folder / "first" / "deep" / "next")
    assert replace_then_kill(one, first, start_another, "deep/next") == wanted[:3], one.logs()
    assert "which no name leads to" in one.frontend.log()


def test_a_content_comes_from_the_folder_that_still_has_it(machines, wanted):
    """The name leads to another folder, and the first one is untouched."""
    one = machines()
    first = one.runner("shared", {"deep/mine": "austen", "deep/next": "wells"})
    assert one.load("moving", "deep/mine") == 200
    got = replace_then_kill(one, first, lambda: one.runner("shared", {}), "deep/next")
    assert got == wanted[:3], one.logs()


@pytest.mark.skipif(not LONG_TESTS, reason="waits half a minute")
def test_a_content_that_is_nowhere_ends_its_answers_with_the_reason(machines):
    one = machines()
    first = one.runner("first", {"deep/mine": "austen", "deep/next": "wells"})
    assert one.load("moving", "deep/mine") == 200

    def start_another():
        one.overwrite("first", "deep/mine", "wells")
        one.runner("first", {})
    for end in replace_then_kill(one, first, start_another, "deep/next"):
        assert "was replaced or taken away since the request began" in end, end
    assert "has other content" in one.frontend.log()
