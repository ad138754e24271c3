"""Adapters of a hub in a cluster: frontends look names up, one runner fetches, the others get it by content hash. Every
process has a cache of its own, as on a machine of its own."""

import concurrent.futures
import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request

import openai
import pytest

from conftest import ADMIN_KEY, DEMO, Server, binary, complete, free_port, running_etcd
from test_cluster import EVENLY, SMALL, Process
from test_fetch import TOKEN, Hub, environment
from test_sources import OTHER, put, refused, repos  # noqa: F401: a fixture among them

pytestmark = pytest.mark.skipif(
    shutil.which("etcd") is None or
    not os.path.exists(os.path.join(os.path.dirname(binary()), "libgraft_cluster.so")),
    reason="without etcd, or built without gRPC")
PATIENCE_S = 120


def eventually(holds, what):
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


class Frontend(Process):
    def __init__(self, *args, env):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        super().__init__("frontend", "--model", DEMO / "base", "--port", self.port, "--quiet", *args, env=env)

    client = Server.client


class Cluster:
    """An etcd, a hub, and graft's processes, each with the hub's cache in a folder of its own."""

    def __init__(self, folder, hub, *args, **env):
        self.folder, self.hub, self.args, self.env = folder, hub, args, env
        self.processes = []
        self.etcd = contextlib.ExitStack()
        self.address = f"127.0.0.1:{self.etcd.enter_context(running_etcd(folder / 'etcd'))}"
        eventually(lambda: self.admin("init").returncode == 0, "etcd does not answer")

    def admin(self, *args):
        return subprocess.run([binary(), "cluster", *args, "--etcd", self.address], capture_output=True, text=True,
                              timeout=60)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for process in self.processes:
            if process.process.poll() is None:
                process.stop()
        self.etcd.close()

    def environment(self, name):
        return environment(self.hub, self.folder / name, **self.env)

    def sources(self):
        return ("--etcd", self.address, "--source", "hub=hf:", "--allow", "hub/acme/*", *self.args)

    def frontend(self, name, *args):
        made = Frontend(*self.sources(), "--admin-key", ADMIN_KEY, *EVENLY, *args, env=self.environment(name))
        self.processes.append(made.start())
        made.wait_for("frontend of")
        return made

    def runner(self, name, *args):
        (self.folder / f"{name}-own").mkdir(exist_ok=True)
        made = Process("runner", "--model", DEMO / "base", *self.sources(), "--quiet", "--adapters",
                       self.folder / f"{name}-own", "--adapter-store", self.folder / f"{name}-store", *SMALL, *args,
                       env=self.environment(name))
        self.processes.append(made.start())
        made.wait_for("runner of")
        return made

    def logs(self):
        return "".join(f"== {one.args[1]}\n{one.log()}" for one in self.processes)

    def fetchers(self):
        return [one for one in self.processes if "is fetched for the cluster" in one.log()]


def weights(hub, name):
    """Bodies of the adapter's weights that were asked for at the CDN."""
    return [one for one in hub.asked() if name in one["path"] and one["path"].endswith("adapter_model.safetensors")
            and one["port"] != hub.port and one["method"] == "GET"]


def ask_all(frontends, model, count=8):
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return set(pool.map(lambda i: complete(frontends[i % len(frontends)], model), range(count)))


def load(frontend, **body):
    request = urllib.request.Request(frontend.url + "/v1/load_lora_adapter", json.dumps(body).encode(),
                                     {"Content-Type": "application/json", "Authorization": f"Bearer {ADMIN_KEY}"})
    try:
        with urllib.request.urlopen(request, timeout=120) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_a_name_is_fetched_once_for_the_cluster(repos, tmp_path):  # noqa: F811
    with Hub(repos) as hub, Server() as local, Cluster(tmp_path, hub) as cluster:
        runners = [cluster.runner(f"runner{i}") for i in (1, 2)]
        frontends = [cluster.frontend(f"frontend{i}") for i in (1, 2)]
        for frontend in frontends:
            frontend.wait_for("is up", count=2)
        wanted = complete(local, "austen")
        model = "hub/acme/austen"
        assert ask_all(frontends, model) == {wanted}, cluster.logs()
        assert len(weights(hub, "acme/austen")) == 1
        assert len(cluster.fetchers()) == 1 and cluster.fetchers()[0] in runners
        # The other runner has it from the first, by its content.
        other = next(one for one in runners if one not in cluster.fetchers())
        other.wait_for("was fetched from")
        commits = {frontend.client().models.retrieve(model).revision for frontend in frontends}
        assert len(commits) == 1 and len(commits.pop()) == 40
        # Only the fetcher's machine has it in the hub's cache, and it has it once.
        caches = [path for path in tmp_path.glob("*/hub/models--acme--austen/snapshots/*") if path.is_dir()]
        assert len(caches) == 1

        # What is not fit is told by either frontend, and was fetched once by each that was asked.
        for frontend in frontends:
            for _ in range(2):
                error = refused(frontend, "hub/acme/broken")
                assert error.status_code == 400 and "use_dora" in str(error) and str(tmp_path) not in str(error)
            assert refused(frontend, "hub/acme/none").status_code == 404
            assert refused(frontend, "hub/other/carroll").status_code == 404
        assert len(weights(hub, "acme/broken")) == 1

        # The fetcher dies: the other one serves on, and fetches what comes next.
        cluster.fetchers()[0].stop(signal.SIGKILL)
        assert ask_all(frontends, model, 4) == {wanted}, cluster.logs()
        shutil.copytree(DEMO / "adapters" / "doyle", repos / "acme" / "doyle" / "main")
        assert complete(frontends[0], "hub/acme/doyle") == complete(local, "doyle"), cluster.logs()


def test_a_runner_that_is_killed_while_it_fetches(repos, tmp_path):  # noqa: F811
    with Hub(repos, rate=100_000) as hub, Server() as local, Cluster(tmp_path, hub) as cluster:
        runners = {name: cluster.runner(name) for name in ("runner1", "runner2")}
        frontend = cluster.frontend("frontend")
        frontend.wait_for("is up", count=2)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            waiting = [pool.submit(complete, frontend, "hub/acme/austen") for _ in range(4)]

            def fetching():
                return [name for name in runners if list((tmp_path / name).rglob("*.incomplete"))]
            eventually(fetching, "no runner fetches")
            first = fetching()
            assert len(first) == 1
            runners[first[0]].stop(signal.SIGKILL)
            assert {one.result() for one in waiting} == {complete(local, "austen")}, cluster.logs()
        assert "the next one is asked" in frontend.log()
        assert not list((tmp_path / first[0]).rglob("snapshots/*/adapter_config.json"))
        assert next(iter(cluster.fetchers())) is runners[({*runners} - {*first}).pop()]


def test_tenants_tokens_and_a_newer_revision(repos, tmp_path):  # noqa: F811
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps({"a": TOKEN, "b": OTHER}))
    with Hub(repos, token=TOKEN) as hub, Server() as local, \
            Cluster(tmp_path, hub, "--source-tokens", tokens, HF_TOKEN=TOKEN) as cluster:
        keys = tmp_path / "keys.json"
        keys.write_text(json.dumps([{"key_sha256": digest, "tenant": tenant, "adapters": ["*"]}
                                    for tenant in "abc" for digest in [hashlib.sha256(f"key-{tenant}".encode()).hexdigest()]]))
        assert cluster.admin("keys", "--keys", str(keys)).returncode == 0
        runner = cluster.runner("runner")
        frontends = [cluster.frontend(f"frontend{i}", "--log-level", "debug") for i in (1, 2)]
        bare = Frontend("--etcd", cluster.address, *EVENLY, env=cluster.environment("bare"))
        cluster.processes.append(bare.start())
        for one in (*frontends, bare):
            one.wait_for("is up")
            one.wait_for("frontend of")
        model = "hub/acme/gated-doyle"

        def ask(frontend, tenant, name=model):
            return frontend.client(f"key-{tenant}").completions.create(model=name, prompt="It was", max_tokens=12,
                                                                       temperature=0).choices[0].text
        unknown = refused(frontends[0], model, "key-b")
        assert unknown.status_code == 404
        assert ask(frontends[0], "a") == complete(local, "doyle")
        # It is in the registry now, and no frontend gives it to others, nor one that has no source at all.
        for frontend in frontends:
            for tenant in "bc":
                late = refused(frontend, model, f"key-{tenant}")
                assert (late.status_code, str(late)) == (404, str(unknown))
                assert model not in [entry.id for entry in frontend.client(f"key-{tenant}").models.list()]
        for tenant in "abc":
            assert refused(bare, model, f"key-{tenant}").status_code == 404
            # Nor do hints at names that are near tell of it.
            for frontend in (*frontends, bare):
                assert "gated-doyle" not in str(refused(frontend, model[:-1], f"key-{tenant}"))
            assert model not in [entry.id for entry in bare.client(f"key-{tenant}").models.list()]
        assert ask(frontends[1], "a") == complete(local, "doyle")
        assert len(weights(hub, "acme/gated-doyle")) == 1
        before = frontends[0].client("key-a").models.retrieve(model).revision

        # Another revision: the name's next version, told by whichever frontend looks it up.
        shutil.rmtree(repos / "acme" / "gated-doyle" / "main")
        put(repos, "acme/gated-doyle", "wells")
        cluster.processes.remove(frontends[1])
        frontends[1].stop()
        frontends[1] = cluster.frontend("frontend3")  # has looked nothing up so far
        frontends[1].wait_for("is up")
        assert ask(frontends[1], "a") == complete(local, "wells"), cluster.logs()
        assert frontends[1].client("key-a").models.retrieve(model).revision != before
        listed = cluster.admin("versions", model).stdout
        assert listed.count("\n") >= 2, listed
        # The first one has looked at the old revision alone: for the new one it asks again.
        eventually(lambda: ask(frontends[0], "a") == complete(local, "wells"), cluster.logs())
        told = cluster.logs() + listed
        for one in cluster.processes:
            told += pathlib.Path(f"/proc/{one.process.pid}/cmdline").read_text()
        assert TOKEN not in told and OTHER not in told
        assert runner.process.poll() is None


def test_an_admins_load_by_a_sources_name(repos, tmp_path):  # noqa: F811
    with Hub(repos) as hub, Server() as local, Cluster(tmp_path, hub) as cluster:
        for name in ("runner1", "runner2"):
            cluster.runner(name)
        frontends = [cluster.frontend(f"frontend{i}") for i in (1, 2)]
        for frontend in frontends:
            frontend.wait_for("is up", count=2)
        status, entry = load(frontends[0], lora_name="jane", lora_path="hub/acme/austen")
        assert status == 200 and len(entry["revision"]) == 40, entry
        assert ask_all(frontends, "jane") == {complete(local, "austen")}, cluster.logs()
        assert len(weights(hub, "acme/austen")) == 1
        for body, code in (({"lora_name": "x", "lora_path": "hub/acme/none"}, 404),
                           ({"lora_name": "x", "lora_path": "hub/other/carroll"}, 404),
                           ({"lora_name": "x", "lora_path": "hub/acme/broken"}, 400),
                           ({"lora_name": "hub/acme/austen", "lora_path": "hub/acme/austen"}, 400),
                           ({"lora_name": "x", "lora_path": hub.url + "/acme/austen"}, 400)):
            status, told = load(frontends[0], **body)
            assert status == code and str(tmp_path) not in json.dumps(told), told


def test_what_does_not_go_together(repos, tmp_path):  # noqa: F811
    with Hub(repos) as hub:
        for command in ("runner", "frontend"):
            run = subprocess.run([binary(), command, "--model", str(DEMO / "base"), "--source", "hub=hf:", "--allow", "*",
                                  *(("--runners", "127.0.0.1:1") if command == "frontend" else ())],
                                 env=environment(hub, tmp_path), capture_output=True, text=True, timeout=60)
            assert run.returncode != 0 and "--source" in run.stderr and "--etcd" in run.stderr, run.stderr
        with Cluster(tmp_path, hub) as cluster:
            cluster.args = ()
            frontend = cluster.frontend("frontend")
            runner = Process("runner", "--model", DEMO / "base", "--etcd", cluster.address, "--quiet", *SMALL)
            cluster.processes.append(runner.start())
            frontend.wait_for("is up")
            assert refused(frontend, "hub/acme/austen").status_code == 503
            assert "no runner of this cluster has --source 'hub'" in frontend.log()


def test_the_first_of_two_frontends_ends(repos, tmp_path):  # noqa: F811
    """A frontend that is killed while its runner fetches leaves nothing behind that another one waits for."""
    with Hub(repos, rate=100_000) as hub, Server() as local, Cluster(tmp_path, hub) as cluster:
        cluster.runner("runner")
        frontends = [cluster.frontend(f"frontend{i}") for i in (1, 2)]
        for frontend in frontends:
            frontend.wait_for("is up")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            lost = pool.submit(refused_or_cut, frontends[0], "hub/acme/austen")
            eventually(lambda: list((tmp_path / "runner").rglob("*.incomplete")), "it is not fetched")
            waiting = pool.submit(complete, frontends[1], "hub/acme/austen")
            frontends[0].stop(signal.SIGKILL)
            assert waiting.result() == complete(local, "austen"), cluster.logs()
            assert lost.result()


def refused_or_cut(frontend, model):
    try:
        complete(frontend, model)
    except openai.APIError:
        return True
    return False
