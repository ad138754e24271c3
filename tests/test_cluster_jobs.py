"""Files and fine-tuning jobs of a cluster: etcd, two frontends and two runners that learn. A document is uploaded at one
frontend, its job is seen at the other one, goes on after the death of the runner that trains it, and its adapter answers
through both."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess

import openai
import pytest

from conftest import binary, running_etcd
from test_cluster import Frontend, Runner
from test_learning_jobs import PROMPT, create, messages, refused, teach_encoder, upload, wait_for, wait_until

pytestmark = pytest.mark.skipif(
    shutil.which("etcd") is None or
    not os.path.exists(os.path.join(os.path.dirname(binary()), "libgraft_cluster.so")),
    reason="without etcd, or built without gRPC")
LEARNS = ("--learn-share", 0.5, "--learn-gib", 0.25, "--learn-checkpoint-seconds", 0)
KEYS = {"a": "a-key", "b": "b-key"}


class Cluster:
    """The runners come and go; the second frontend has the same folder by another path."""

    def __init__(self, folder, port):
        self.folder, self.etcd = folder, ("--etcd", f"127.0.0.1:{port}")
        self.processes = []
        wait_until(lambda: self.admin("init").returncode == 0)
        keys = [{"key_sha256": hashlib.sha256(key.encode()).hexdigest(), "tenant": tenant, "adapters": ["base"]}
                for tenant, key in KEYS.items()]
        (folder / "keys.json").write_text(json.dumps(keys))
        assert self.admin("keys", "--keys", folder / "keys.json").returncode == 0
        (folder / "learn").mkdir()
        (folder / "mount").symlink_to(folder / "learn")
        self.frontends = [self.start(Frontend([], *self.etcd, "--learn-dir", folder / name))
                          for name in ("learn", "mount")]
        for frontend in self.frontends:
            frontend.wait_for("frontend of")

    def admin(self, command, *args):
        return subprocess.run([binary(), "cluster", command, *map(str, self.etcd + args)], capture_output=True, text=True,
                              timeout=60)

    def start(self, process):
        self.processes.append(process.start())
        return process

    def runner(self, *args):
        runner = self.start(Runner(*self.etcd, *args))
        for frontend in self.frontends:
            frontend.wait_for(re.escape(runner.address) + ".* is up")
        return runner

    def clients(self, tenant):
        return [frontend.client(KEYS[tenant]) for frontend in self.frontends]

    def end(self):
        for process in self.processes:
            if process.process.poll() is None:
                process.stop()


@pytest.fixture
def cluster(tmp_path):
    with contextlib.ExitStack() as stack:
        running = Cluster(tmp_path, stack.enter_context(running_etcd(tmp_path / "etcd")))
        stack.callback(running.end)
        yield running


def answer(client, model):
    return client.completions.create(model=model, prompt=PROMPT, max_tokens=8, temperature=0).choices[0].text


def runner_of(cluster, job):
    """That has, or had, the job."""
    for runner in cluster.processes:
        if runner.args[1] == "runner" and f"fine-tuning job {job} of a begins here" in runner.log():
            return runner
    return None


def test_a_job_outlives_the_runner_that_trains_it(cluster):
    (here, there), (other, _) = cluster.clients("a"), cluster.clients("b")
    serves = cluster.runner("--adapter-store", cluster.folder / "store")
    file = upload(here)
    assert there.files.retrieve(file.id).bytes == file.bytes and there.files.content(file.id).read()
    # Nobody learns so far.
    assert refused(there, lambda c: create(c, file.id), "no runner of this cluster learns: start one with graft runner "
                   "--etcd HOST:PORT --learn-dir DIR --learn-share 0.3'") == 409
    learners = [cluster.runner(*LEARNS, "--learn-dir", cluster.folder / name) for name in ("learn", "mount")]
    job = create(there, file.id, hyperparameters={"n_epochs": 60}, suffix="light")
    assert [listed.id for listed in here.fine_tuning.jobs.list()] == [job.id]
    wait_until(lambda: list(here.fine_tuning.jobs.checkpoints.list(job.id)))
    dies = runner_of(cluster, job.id)
    lives = learners[1 - learners.index(dies)]
    assert here.fine_tuning.jobs.retrieve(job.id).status == "running", "it ended before its runner was killed"
    dies.send(signal.SIGKILL)
    done = wait_for(here, job.id, "succeeded")
    said = messages(there, job.id)
    assert any(line.startswith("Going on from step") for line in said), said
    assert said[0].startswith("The job has successfully completed")
    assert f"fine-tuning job {job.id} of a begins here" in lives.log()
    assert not list((cluster.folder / "learn" / "checkpoints").iterdir())
    # Its tenant has it at both frontends, of both runners that live; nobody else knows of it.
    model = done.fine_tuned_model
    assert model.startswith("ft:base:light:")
    for client in (here, there):
        wait_until(lambda client=client: model in {listed.id for listed in client.models.list()})
        assert "parrot" in answer(client, model) and "parrot" not in answer(client, "base")
    assert {listed.id for listed in other.models.list()} == {"base"}
    for call in (lambda c: c.models.retrieve(model), lambda c: c.models.delete(model), lambda c: answer(c, model),
                 lambda c: c.files.retrieve(file.id), lambda c: c.files.content(file.id),
                 lambda c: c.files.delete(file.id), lambda c: create(c, file.id),
                 lambda c: c.fine_tuning.jobs.retrieve(job.id), lambda c: c.fine_tuning.jobs.cancel(job.id),
                 lambda c: c.fine_tuning.jobs.list_events(job.id),
                 lambda c: c.fine_tuning.jobs.checkpoints.list(job.id)):
        assert refused(other, call, "") == 404
    with pytest.raises(openai.NotFoundError) as error:
        answer(other, model[:-1])
    assert model not in str(error.value)
    assert not list(other.files.list()) and not list(other.fine_tuning.jobs.list())
    # A runner without the folder has fetched it by its content.
    lives.stop()
    assert "parrot" in answer(here, model) and serves.process.poll() is None
    assert there.models.delete(model).deleted
    for client in (here, there):
        wait_until(lambda client=client: model not in {listed.id for listed in client.models.list()})
        assert refused(client, lambda c: answer(c, model), "") == 404
    assert here.fine_tuning.jobs.retrieve(job.id).fine_tuned_model is None
    assert here.files.delete(file.id).deleted and not list(there.files.list())


def test_a_job_is_cancelled_at_another_frontend_and_left_by_a_runner_that_ends(cluster):
    (here, there), _ = cluster.clients("a"), cluster.clients("b")
    runner = cluster.runner(*LEARNS, "--learn-dir", cluster.folder / "learn")
    file = upload(here).id
    job = create(here, file, hyperparameters={"n_epochs": 100_000})
    waiting = create(there, file)
    wait_until(lambda: any("training loss" in line for line in messages(there, job.id)))
    assert there.fine_tuning.jobs.cancel(waiting.id).status == "cancelled"
    # One that is asked to end gives its job back, which nobody else takes here.
    assert runner.stop() == 0
    # Frontends knew of it before the job had made its last step there. A runner that loses its lease leaves it, too.
    log = runner.log()
    assert log.index("frontends take their requests elsewhere") < log.rindex(f"fine-tuning job {job.id} of a is left")
    assert list((cluster.folder / "learn" / "checkpoints").glob(job.id + "*"))
    assert there.fine_tuning.jobs.retrieve(job.id).status == "running"
    runner = cluster.runner(*LEARNS, "--learn-dir", cluster.folder / "learn")
    wait_until(lambda: any(line.startswith("Going on from step") for line in messages(here, job.id)))
    there.fine_tuning.jobs.cancel(job.id)
    wait_for(here, job.id, "cancelled")
    assert refused(there, lambda c: c.fine_tuning.jobs.cancel(job.id), "is finished") == 409
    # The next one is its turn. A runner that shares the folder serves it without learning anything.
    model = wait_for(here, create(here, file).id, "succeeded").fine_tuned_model
    serves = cluster.runner("--learn-dir", cluster.folder / "mount")
    assert ", learns" in cluster.admin("status").stdout
    assert runner.stop() == 0
    assert "parrot" in answer(there, model) and serves.process.poll() is None


def test_a_runners_encoder_makes_adapters(cluster, tmp_path):
    (here, there), _ = cluster.clients("a"), cluster.clients("b")
    learn = (*LEARNS, "--learn-dir", cluster.folder / "learn")
    file, read = upload(here).id, {"learner": "encoder"}
    runner = cluster.runner(*learn)
    failed = wait_for(there, create(here, file, hyperparameters=read).id, "failed")
    assert "start it with --learn-encoder" in failed.error.message
    assert runner.stop() == 0
    cluster.runner(*learn, "--learn-encoder", teach_encoder(tmp_path))
    model = wait_for(there, create(here, file, hyperparameters=read).id, "succeeded").fine_tuned_model
    for client in (here, there):
        wait_until(lambda client=client: model in {listed.id for listed in client.models.list()})
        assert len(answer(client, model)) > 0


def test_what_is_not_set_up_is_refused_with_what_to_start(cluster, tmp_path):
    bare = cluster.start(Frontend([], *cluster.etcd))
    bare.wait_for("frontend of")
    client = bare.client(KEYS["a"])
    assert refused(client, lambda c: c.files.list(), "--learn-dir") == 501
    for program, args, words in ((Frontend([], "--runners", "127.0.0.1:1", "--learn-dir", tmp_path / "x"), (), "--etcd"),
                                 (Runner("--learn-dir", tmp_path / "x"), (), "--etcd"),
                                 (Runner(*cluster.etcd, "--learn-share", 0.3), (), "--learn-dir DIR"),
                                 (Frontend([], *cluster.etcd, "--learn-dir", tmp_path / "y"), (), "all of them share")):
        program.start()
        assert program.process.wait(120) != 0
        program.wait_for(re.escape(words))
