"""A cluster on one machine: etcd, two frontends, runners. What is changed at one frontend holds for all, and etcd may go
away, come back empty or lose its leader while clients are served."""

import concurrent.futures
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

import httpx
import openai
import pytest

from conftest import ADMIN_KEY, DEMO, Server, binary, free_port
from test_cluster import asked, streamed

pytestmark = pytest.mark.skipif(
    shutil.which("etcd") is None or
    not os.path.exists(os.path.join(os.path.dirname(binary()), "libgraft_cluster.so")),
    reason="without etcd, or built without gRPC")
# Options of the processes that `graft cluster up` starts.
SMALL = {"GRAFT_THREADS": "1", "GRAFT_POOL_GIB": "0.1", "GRAFT_HOST_GIB": "0.1", "GRAFT_ADMIN_KEY": ADMIN_KEY,
         "GRAFT_REQUEST_LOG": "false"}
PATIENCE_S = 120


def eventually(holds, what, patience_s=PATIENCE_S):
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError(what)


def none_failed(running):
    """True; raises what one of these clients met."""
    for one in running:
        if one.done():
            one.result()
    return True


class Cluster:
    def __init__(self, folder):
        self.folder = folder
        self.adapters = folder / "own"
        self.adapters.mkdir()
        for name in ("austen", "wells"):
            shutil.copytree(DEMO / "adapters" / name, self.adapters / name)
        self.state = folder / "cluster"
        self.others = []
        self.etcd_of_test = None  # the one that a test has started in place of the cluster's
        self.ports = self._two_ports()
        self.run("up", "--model", DEMO / "base", "--adapters", self.adapters, "--runners", 2, "--frontends", 2,
                 "--port", self.ports[0])
        for port in self.ports:
            eventually(lambda port=port: self.ready(port), "the frontends are not ready")

    @staticmethod
    def _two_ports():
        while True:
            port = free_port()
            if port < 65000:
                return port, port + 1

    def run(self, *args, code=0):
        done = subprocess.run([binary(), "cluster", *map(str, args), "--folder", str(self.state)],
                              env={**os.environ, **SMALL}, capture_output=True, text=True, timeout=200)
        assert done.returncode == code or (code != 0 and done.returncode != 0), \
            done.stdout + done.stderr + self.logs()
        return done.stdout + done.stderr

    def logs(self):
        return "".join(f"== {path.name}\n{path.read_text()[-3000:]}" for path in sorted(self.state.glob("*.log")))

    def ready(self, port):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=200) as reply:
                return reply.status == 200
        except OSError:
            return False

    def client(self, which=0, key="none"):
        return openai.OpenAI(base_url=f"http://127.0.0.1:{self.ports[which]}/v1", api_key=key, max_retries=0,
                             timeout=120)

    def ask(self, model, which=0, key="none"):
        reply = self.client(which, key).completions.create(model=model, prompt="It was", max_tokens=8, temperature=0)
        return reply.choices[0].text

    def answers(self, model, which=0, key="none"):
        try:
            return self.ask(model, which, key)
        except openai.APIStatusError:
            return None

    def change(self, path, which=0, key=ADMIN_KEY, **body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.ports[which]}/v1/{path}",
                                         json.dumps(body).encode(),
                                         {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def load(self, name, path, which=0, **more):
        return self.change("load_lora_adapter", which, lora_name=name, lora_path=path, **more)

    def pid(self, name):
        state = json.loads((self.state / "cluster.json").read_text())
        return next(one["pid"] for one in state["processes"] if one["name"] == name)

    def kill(self, name):
        """Ends it at once; what is returned starts it again in its place."""
        pid = self.pid(name)
        args = open(f"/proc/{pid}/cmdline").read().split("\0")[:-1]
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not os.path.exists(f"/proc/{pid}/fd") or not os.listdir(f"/proc/{pid}/fd"), "it lives")
        program = args[0] if name == "etcd" else binary()
        return lambda: subprocess.Popen([program, *args[1:]], env={**os.environ, **SMALL}, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)

    def start_again(self, start):
        """By what `kill` returned; ended with the cluster."""
        self.others.append(start())

    @contextlib.contextmanager
    def another_frontend(self):
        """One that has never seen the cluster; its number for `which`."""
        etcd = json.loads((self.state / "cluster.json").read_text())["etcd"]
        ports, port = self.ports, free_port()
        process = subprocess.Popen([binary(), "frontend", "--model", DEMO / "base", "--etcd", etcd, "--port", str(port),
                                    "--quiet"], env={**os.environ, **SMALL}, stderr=subprocess.DEVNULL)
        try:
            eventually(lambda: self.ready(port), "the new frontend is not ready")
            self.ports = (*ports, port)
            yield len(ports)
        finally:
            self.ports = ports
            process.terminate()
            process.wait()

    def runner(self, log, *args):
        """One more on this machine."""
        etcd = json.loads((self.state / "cluster.json").read_text())["etcd"]
        with open(log, "w") as out:
            return subprocess.Popen([binary(), "runner", "--model", DEMO / "base", "--etcd", etcd, "--quiet",
                                     *map(str, args)], env={**os.environ, **SMALL}, stderr=out)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    running = Cluster(tmp_path_factory.mktemp("etcd"))
    yield running
    for process in running.others:
        process.terminate()
        process.wait()
    if running.etcd_of_test is not None:
        running.etcd_of_test.terminate()
        running.etcd_of_test.wait()
    running.run("down")
    assert not (running.state / "cluster.json").exists()


def test_status_names_everybody(cluster):
    text = cluster.run("status")
    assert text.count("\nrunner ") == 2
    # Which process has which address.
    for name in ("runner-0", "runner-1", "frontend-0", "frontend-1"):
        kind, process = name.split("-")[0], cluster.pid(name)
        assert re.search(rf"^{kind} \S+:\d+.*, {name}, process {process} of \S+$", text, re.M), text
    eventually(lambda: cluster.run("status").count(", leads") == 1, "nobody leads")
    assert "is up" in cluster.run("up", "--model", DEMO / "base", code=1)


def test_a_cluster_that_cannot_come_up_says_so_at_once(cluster, tmp_path):
    """Nothing is started, and nothing of the cluster that is there is taken for its own."""
    def up(*args):
        done = subprocess.run([binary(), "cluster", "up", *map(str, args), "--folder", tmp_path / "new"],
                              capture_output=True, text=True, timeout=200)
        return done.returncode, done.stderr
    code, text = up("--model", DEMO / "base", "--port", cluster.ports[0])
    assert code != 0 and f"port {cluster.ports[0]} is in use" in text
    code, text = up("--model", tmp_path / "none")
    assert code != 0 and "has no config.json" in text
    assert not (tmp_path / "new").exists()
    code, text = up("--model", DEMO / "base", "--adapters", tmp_path / "none", "--port", free_port())
    assert code != 0 and re.search("runner-[01] has ended: graft: ", text) and f"{tmp_path}/none" in text, text


def test_another_base_is_refused_with_what_to_start(cluster, tmp_path):
    shutil.copytree(DEMO / "base", tmp_path / "other")
    with open(tmp_path / "other" / "tokenizer.json", "a", encoding="utf-8") as file:
        file.write("\n")
    etcd = json.loads((cluster.state / "cluster.json").read_text())["etcd"]
    for command in (["runner"], ["frontend", "--port", free_port()]):
        done = subprocess.run([binary(), *map(str, command), "--model", tmp_path / "other", "--etcd", etcd, "--quiet"],
                              env={**os.environ, **SMALL}, capture_output=True, text=True, timeout=200)
        assert done.returncode != 0 and "a cluster of another base model ('base') than this one ('other')" in done.stderr


def test_what_is_loaded_at_one_frontend_is_served_by_all_and_rolled_back(cluster):
    assert cluster.load("mine", "austen", which=0)[0] == 200
    eventually(lambda: cluster.answers("mine", which=1) == cluster.ask("austen"), "the other does not serve it")
    code, text = cluster.load("mine", "wells", which=1)
    assert code in (400, 409) and "other content" in text
    assert cluster.load("mine", "wells", which=1, load_inplace=True)[0] == 200
    for which in (0, 1):
        eventually(lambda which=which: cluster.answers("mine", which) == cluster.ask("wells"), "not replaced")
    assert "2 " in cluster.run("versions", "mine")
    cluster.run("rollback", "mine", "--version", 1)
    for which in (0, 1):
        eventually(lambda which=which: cluster.answers("mine", which) == cluster.ask("austen"), "not rolled back")
    assert "roll back 'mine@1' by operator" in cluster.run("audit")
    assert cluster.change("unload_lora_adapter", which=1, lora_name="mine")[0] == 200
    eventually(lambda: cluster.answers("mine", which=0) is None, "it is still served")
    code, text = cluster.load("bad", "nowhere")
    assert code == 404 and "'nowhere' does not exist under the adapters folder" in text
    code, text = cluster.load("content:x", "wells")
    assert code == 400 and "the cluster's own" in text


def test_a_name_of_the_runners_folders_is_replaced_on_request_alone_and_comes_back(cluster):
    austen, wells = cluster.ask("austen"), cluster.ask("wells")
    code, text = cluster.load("austen", "wells")
    assert code in (400, 409) and "other content" in text
    assert cluster.load("austen", "wells", load_inplace=True)[0] == 200
    for which in (0, 1):
        eventually(lambda which=which: cluster.answers("austen", which) == wells, "not replaced")
    assert cluster.change("unload_lora_adapter", lora_name="austen")[0] == 200
    for which in (0, 1):
        eventually(lambda which=which: cluster.answers("austen", which) == austen, "it did not come back")


def test_streams_finish_on_the_content_that_they_began_with(cluster):
    """The name leads to another content meanwhile, and then to none."""
    def ask(model, heard=lambda: None):
        text = ""
        for chunk in cluster.client(0).completions.create(model=model, prompt="It was", max_tokens=150, temperature=0.8,
                                                          seed=5, stream=True, extra_body={"ignore_eos": True}):
            text += chunk.choices[0].text
            heard()
        return text

    assert cluster.load("changes", "austen")[0] == 200
    begun = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        streamed = pool.submit(ask, "changes", begun.set)
        assert begun.wait(PATIENCE_S)
        assert cluster.load("changes", "wells", which=1, load_inplace=True)[0] == 200
        eventually(lambda: cluster.answers("changes") == cluster.ask("wells"), "not replaced")
        assert cluster.change("unload_lora_adapter", which=1, lora_name="changes")[0] == 200
        assert streamed.result() == ask("austen")
    eventually(lambda: cluster.answers("changes") is None, "it is still served")


def test_both_frontends_answer_as_one_process_while_runners_come_and_go(cluster, tmp_path):
    """Clients ask again and again, while a third runner is added, one of the others is killed, and the third drained."""
    requests = [asked(i, 48, ("base", "austen", "wells")) for i in range(9)]
    with Server(env=SMALL) as single:
        wanted = [streamed(single.client(), request, lambda: None) for request in requests]
    ended, got = threading.Event(), [[] for _ in requests]

    def run(i):
        while not ended.is_set():
            got[i].append(streamed(cluster.client(i % 2), requests[i], lambda: None))

    def address_in(log):
        return re.search(r" info runner of base on (\S+:\d+),", log.read_text()).group(1)

    def logs():
        return [(cluster.state / f"frontend-{i}.log").read_text() for i in (0, 1)]

    def both_say(word):
        return all(word in text for text in logs())

    def all_up():
        return set.intersection(*(set(re.findall(r" info runner (\S+) is up: ", text)) for text in logs()))

    with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
        running = [pool.submit(run, i) for i in range(len(requests))]
        try:
            log = tmp_path / "log"
            third = cluster.runner(log, "--adapters", cluster.adapters, "--request-log", "true")
            cluster.others.append(third)
            eventually(lambda: log.read_text().count("request id=") > 5, "the third runner is not used")
            first, added = address_in(cluster.state / "runner-0.log"), address_in(log)
            eventually(lambda: added in all_up(), "a frontend does not know of it")
            known = all_up()
            start = cluster.kill("runner-0")
            eventually(lambda: both_say(f"{first} is down: "), "nobody noticed")
            cluster.start_again(start)
            eventually(lambda: all_up() - known, "it did not come back")
            third.terminate()
            assert third.wait(60) == 0, log.read_text()
            # A frontend that was not connected just then, as on a busy machine, finds nobody there.
            gone = (f"{added} drains", f"{added} is down: ")
            eventually(lambda: all(any(word in text for word in gone) for text in logs()), "it is still there")
            assert "frontends take their requests elsewhere" in log.read_text()
            eventually(lambda: none_failed(running) and all(len(answers) > 1 for answers in got), "a client has one answer alone")
        finally:
            ended.set()
        for one in running:
            one.result()
    for i, want in enumerate(wanted):
        assert len(got[i]) > 1 and set(got[i]) == {want}


def test_content_that_a_runner_does_not_have_is_fetched(cluster, tmp_path):
    assert cluster.load("travels", "austen")[0] == 200
    (tmp_path / "empty").mkdir()
    log = tmp_path / "log"
    # A folder of its own, which the registry's path does not lie in.
    runner = cluster.runner(log, "--adapters", tmp_path / "empty", "--adapter-store", tmp_path / "store")
    try:
        eventually(lambda: "was fetched from" in log.read_text() or runner.poll() is not None, "it is not fetched")
        assert "was fetched from" in log.read_text(), log.read_text()
        eventually(lambda: len(os.listdir(tmp_path / "store" / "contents")) == 1, "it is not kept")
    finally:
        runner.send_signal(signal.SIGTERM)
        assert runner.wait(60) == 0, log.read_text()
    assert cluster.change("unload_lora_adapter", lora_name="travels")[0] == 200


def test_etcd_away_and_back_with_its_data(cluster):
    assert cluster.load("kept", "austen")[0] == 200
    restart = cluster.kill("etcd")
    assert cluster.ask("kept") == cluster.ask("austen")
    code, text = cluster.load("new", "wells")
    assert code == 503 and "etcd" in text
    etcd = restart()
    try:
        eventually(lambda: cluster.load("new", "wells")[0] == 200, "changes are refused though etcd is back")
        eventually(lambda: cluster.answers("new", which=1), "the other does not serve it")
        cluster.run("status")
    finally:
        cluster.etcd_of_test = etcd


def test_an_empty_etcd_changes_nothing_until_it_is_restored(cluster):
    eventually(lambda: "adapters/new" in (cluster.state / "frontend-0.view").read_text(), "the view is not written")
    etcd = cluster.etcd_of_test
    args = etcd.args
    etcd.kill()
    etcd.wait()
    shutil.rmtree(cluster.state / "etcd")
    cluster.etcd_of_test = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually(lambda: "graft cluster restore" in cluster.load("more", "wells")[1], "it is not refused")
    for which in (0, 1):
        assert cluster.ask("kept", which) == cluster.ask("austen", which)
    eventually(lambda: "graft cluster init" in cluster.run("status", code=1), "the empty one is not told")
    text = cluster.run("restore", "--view", cluster.state / "frontend-0.view")
    assert "wrote back" in text
    eventually(lambda: cluster.load("more", "wells")[0] == 200, "changes are refused though it is restored")
    status = cluster.run("status")
    assert "adapter kept" in status and "adapter new" in status
    eventually(lambda: cluster.run("status").count("\nrunner ") == 2, "the runners did not come back")


def test_keys_of_the_cluster_hold_at_every_frontend_and_a_tenant_is_forgotten(cluster, tmp_path):
    assert cluster.load("others", "austen")[0] == 200
    eventually(lambda: "adapter others" in cluster.run("status"), "it is not there")
    digest = hashlib.sha256(b"secret").hexdigest()
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps([{"key": "secret", "tenant": "acme", "adapters": ["*"]}]))
    assert "key_sha256" in cluster.run("keys", "--keys", keys, code=1)
    for wrong in ({"key_sha256": "zz"}, {"key_sha256": digest, "requests_per_minute": "many"}):
        keys.write_text(json.dumps([{"tenant": "acme", "adapters": ["*"], **wrong}]))
        assert "keys[0]" in cluster.run("keys", "--keys", keys, code=1)
    keys.write_text(json.dumps([{"key_sha256": digest, "tenant": "acme", "adapters": ["*"], "admin": True,
                                 "requests_per_minute": 600}]))
    cluster.run("keys", "--keys", keys)
    for which in (0, 1):
        eventually(lambda which=which: cluster.answers("base", which) is None, "no key is asked for")
        assert cluster.ask("base", which, key="secret")
    assert cluster.load("theirs", "wells", key="secret")[0] == 200
    eventually(lambda: cluster.answers("theirs", which=1, key="secret"), "the other does not serve it")
    assert "weight 2.5" in cluster.run("weight", "acme", "--weight", 2.5)
    assert "tenant acme: weight 2.5" in cluster.run("status")
    # Name, version, key and weight; others' adapters stay.
    assert "4 records of tenant 'acme'" in cluster.run("forget", "acme")
    status = cluster.run("status")
    assert "theirs" not in status and "acme" not in status and "adapter others" in status
    # The last key gone opens nothing, and is refused itself: where it was known, and where nothing was.
    with cluster.another_frontend() as fresh:
        for which in (0, 1, fresh):
            for key in ("none", "secret"):
                eventually(lambda which=which, key=key: cluster.answers("base", which, key) is None, f"{key} is taken")
            assert cluster.load("more", "wells", which, key="secret")[0] == 401
            assert cluster.ask("base", which, key=ADMIN_KEY)
    for which in (0, 1):
        eventually(lambda which=which: cluster.change("unload_lora_adapter", which, lora_name="theirs")[0] == 404,
                   "a frontend knows it still")


def leader_of(cluster):
    found = re.search(r"frontend \S+:(\d+), leads", cluster.run("status"))
    return int(found.group(1)) if found else None


def test_a_stopped_leader_leads_no_more(cluster):
    leader = leader_of(cluster)
    name = f"frontend-{cluster.ports.index(leader)}"
    os.kill(cluster.pid(name), signal.SIGSTOP)
    try:
        eventually(lambda: leader_of(cluster) not in (None, leader), "nobody else leads")
    finally:
        os.kill(cluster.pid(name), signal.SIGCONT)
    log = cluster.state / f"{name}.log"
    eventually(lambda: "leads the cluster no more" in log.read_text(), "it believes that it leads")
    assert leader_of(cluster) not in (None, leader)


def test_another_leads_when_the_leader_is_killed(cluster, tmp_path):
    """Clients of the other frontend do not notice; one of its own loses its stream."""
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps([{"key_sha256": hashlib.sha256(b"last").hexdigest(), "tenant": "acme", "adapters": ["*"]}]))
    cluster.run("keys", "--keys", keys)
    for which in (0, 1):
        eventually(lambda which=which: cluster.answers("base", which, "last"), "the key is not taken")
    leader = leader_of(cluster)
    its, others = (cluster.client(which, "last") for which in sorted((0, 1), key=lambda which: cluster.ports[which] != leader))
    requests = [asked(i, 48, ("base", "austen", "wells")) for i in range(4)]
    wanted = [streamed(others, request, lambda: None) for request in requests]
    ended, heard, got = threading.Event(), threading.Event(), [[] for _ in requests]

    def run(i):
        while not ended.is_set():
            got[i].append(streamed(others, requests[i], lambda: None))

    def lose():
        with pytest.raises((openai.APIError, httpx.HTTPError)):
            while not ended.is_set():
                streamed(its, asked(0, 400, ("base",)), heard.set)

    with concurrent.futures.ThreadPoolExecutor(len(requests) + 1) as pool:
        running = [pool.submit(run, i) for i in range(len(requests))] + [pool.submit(lose)]
        try:
            eventually(lambda: none_failed(running) and heard.is_set() and all(got), "nobody is served")
            os.kill(cluster.pid(f"frontend-{cluster.ports.index(leader)}"), signal.SIGKILL)
            eventually(lambda: leader_of(cluster) not in (None, leader), "nobody else leads")
            before = [len(answers) for answers in got]
            eventually(lambda: none_failed(running) and all(len(answers) > since + 1 for answers, since in zip(got, before)),
                       "nobody is served now")
        finally:
            ended.set()
        for one in running:
            one.result()
    for want, answers in zip(wanted, got):
        assert set(answers) == {want}
    assert cluster.ready(cluster.ports[1 - cluster.ports.index(leader)])
