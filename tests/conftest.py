"""A real graft process on the demo model, and the clients that talk to it. With GRAFT_DEVICE=cuda:0 in the environment
all of these processes run on a GPU."""

import asyncio
import atexit
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

import openai
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEMO = ROOT / "demo"
sys.path.insert(0, str(ROOT / "tools"))
from local_server import free_port, wait_listening, wait_ready
ADMIN_KEY = "admin-secret"
# Servers of tests remember nothing of each other, nor in the home of whoever runs them.
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="graft-cache-")
atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)
# `make test-all` sets it; without it tests leave out what only repeats, and what checks benches.
LONG_TESTS = bool(os.environ.get("GRAFT_LONG_TESTS"))


def binary():
    return os.environ.get("GRAFT_BINARY", str(ROOT / "build" / "dev" / "graft"))


def bench_binary():
    """graft-bench, beside graft."""
    return f"{binary()}-bench"


def letter_tokenizer(vocab_size):
    """A tokenizer.json whose token i stands for the i-th of `vocab_size` one-letter words: goldens have none."""
    vocab = {chr(0x4E00 + token): token for token in range(vocab_size)}
    return {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None,
            "decoder": None, "model": {"type": "BPE", "vocab": vocab, "merges": []}}


def copy_golden_model(name, folder):
    """A model of tests/goldens as a folder that can be served, whose words are letters."""
    source = ROOT / "tests" / "goldens" / name
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("adapter", "golden.safetensors"))
    config = json.loads((source / "config.json").read_text())
    vocab_size = config.get("text_config", config)["vocab_size"]
    (folder / "tokenizer.json").write_text(json.dumps(letter_tokenizer(vocab_size)))


class Server:
    """graft serve in a process of its own."""

    def __init__(self, *args, model=DEMO / "base", adapters=DEMO / "adapters", env=None):
        self.port = free_port()
        self.args = [binary(), "serve", "--model", str(model), "--adapters", str(adapters), "--host", "127.0.0.1",
                     "--port", str(self.port), *map(str, args)]
        self.env = {**os.environ, **(env or {})}
        self.process = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self, timeout_s=120):
        self.process = subprocess.Popen(self.args, env=self.env, stderr=subprocess.PIPE, text=True)
        os.set_blocking(self.process.stderr.fileno(), False)
        try:
            wait_ready(self.url, self.process, timeout_s)
        except RuntimeError as error:
            raise RuntimeError(f"{error}:\n{self.log()}") from error
        return self

    def log(self):
        # Nothing there yet is None, which text streams do not take.
        return (self.process.stderr.buffer.read() or b"").decode(errors="replace")

    def says(self, text, timeout_s=120):
        """Reads on in the log. Whether `text` comes in it."""
        log, deadline = "", time.monotonic() + timeout_s
        while text not in log and time.monotonic() < deadline:
            log += self.log()
            time.sleep(0.02)
        return text in log

    def stop(self, sig=signal.SIGTERM, timeout_s=60):
        self.process.send_signal(sig)
        return self.process.wait(timeout_s)

    def __enter__(self):
        return self.start()

    def __exit__(self, *unused):
        if self.process.poll() is None:
            code = self.stop()
            assert code == 0, f"graft ended with {code}:\n{self.log()}"

    def client(self, key="none", **kwargs):
        return openai.OpenAI(base_url=self.url + "/v1", api_key=key, max_retries=0, timeout=120, **kwargs)

    def metric(self, name, label=""):
        """Sum of a metric over its labels, or over those with a certain one."""
        with urllib.request.urlopen(self.url + "/metrics", timeout=60) as reply:
            lines = reply.read().decode().splitlines()
        values = [float(line.rsplit(" ", 1)[1]) for line in lines
                  if line.split("{")[0].split(" ")[0] == name and label in line]
        assert values, f"no metric {name}"
        return sum(values)

    def alive(self):
        with urllib.request.urlopen(self.url + "/health", timeout=60) as reply:
            return reply.status == 200


async def complete_all(server, cases):
    """The answers to pairs of model and prompt, asked at once."""
    async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="x", max_retries=0, timeout=300) as client:
        async def one(model, prompt):
            reply = await client.completions.create(model=model, prompt=prompt, max_tokens=12, temperature=0)
            return reply.choices[0].text

        return await asyncio.gather(*(one(*case) for case in cases))


def complete(server, model, prompt="It was"):
    return server.client().completions.create(model=model, prompt=prompt, max_tokens=12,
                                              temperature=0).choices[0].text


THINKS, ENDS = 2, 3  # tokens of the model that reasons


def model_that_reasons(folder):
    """The demo model with other marks: where it begins and ends a turn, this one begins and ends its reasoning."""
    folder.mkdir()
    for path in (DEMO / "base").iterdir():
        (folder / path.name).symlink_to(path)

    def write(name, text):
        (folder / name).unlink()
        (folder / name).write_text(text, encoding="utf-8")
    tokenizer = (DEMO / "base" / "tokenizer.json").read_text(encoding="utf-8")
    write("tokenizer.json", tokenizer.replace("<|start|>", "<think>").replace("<|end|>", "</think>"))
    write("tokenizer_config.json", json.dumps({"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"}))
    write("generation_config.json", json.dumps({"bos_token_id": 0, "eos_token_id": 1}))
    write("chat_template.jinja", "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"
                                 "{% if add_generation_prompt %}<think>{% endif %}")
    return folder


@contextlib.contextmanager
def running_etcd(folder):
    """An etcd of one process, whose data lies in `folder`: its port."""
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    process = subprocess.Popen(["etcd", f"--data-dir={folder}", f"--listen-client-urls={client}",
                                f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}",
                                f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
                                "--log-level=error"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    port = int(client.rsplit(":", 1)[1])
    try:
        wait_listening(port, process)
        yield port
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def server():
    """fp32, as the goldens were made; shared by the tests that leave it as they found it."""
    with Server("--dtype", "fp32", "--admin-key", ADMIN_KEY) as running:
        yield running


@pytest.fixture(scope="session")
def golden():
    return json.loads((DEMO / "golden.json").read_text())


@pytest.fixture(scope="session")
def models(golden):
    return sorted({entry["model"] for entry in golden})
