"""Secrets of sources in no output: tokens, a tenant's token, a proxy's password and signed addresses are planted in every way
that Graft is given them or meets them, and all that it writes, sends and shows is searched for them."""

import concurrent.futures
import http.server
import json
import os
import pathlib
import re
import subprocess
import threading
import urllib.request

import openai
import pytest

from conftest import ADMIN_KEY, DEMO, Server, binary, free_port
from test_fetch import Hub, environment
from test_sources import put, repos  # noqa: F401: a fixture

PLANTED = {"HF_TOKEN": "hf_planted_of_the_operator", "file": "hf_planted_in_a_file", "a": "hf_planted_of_tenant_a",
           "b": "hf_planted_of_tenant_b", "signature": "plantedsignatureofanaddress", "proxy": "planted-password-of-a-proxy"}


class Told:
    """All that was shown anywhere, by where it was."""

    def __init__(self):
        self.texts = {}

    def add(self, where, text):
        self.texts.setdefault(where, []).append(text if isinstance(text, str) else text.decode(errors="replace"))

    def check(self):
        for where, texts in self.texts.items():
            for name, secret in PLANTED.items():
                assert not any(secret in text for text in texts), f"{name} stands in {where}"

    def has(self, where):
        return "".join(self.texts.get(where, []))


class Collector(http.server.ThreadingHTTPServer):
    """Of spans, which it keeps as they came."""

    def __init__(self):
        bodies = self.bodies = []

        class Handler(http.server.BaseHTTPRequestHandler):
            log_message = lambda self, *unused: None

            def do_POST(self):
                bodies.append(str(self.headers).encode() + self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *unused):
        self.shutdown()
        self.server_close()


def processes_below(pid):
    """The process and all that it started."""
    found = [pid]
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += processes_below(int(child))
    return found


def look_at_processes(told, pid):
    """Argument lists; and whether a core file could be had."""
    pids = processes_below(pid)
    for one in pids:
        folder = pathlib.Path(f"/proc/{one}")
        told.add("argument lists", (folder / "cmdline").read_bytes())
        core = re.search(r"Max core file size +(\S+) +(\S+)", (folder / "limits").read_text())
        assert core.groups() == ("0", "0"), (folder / "cmdline").read_text()
    return len(pids)


def page(url, key=None):
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"} if key else {})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return f"{reply.headers}{reply.read().decode()}"
    except urllib.error.HTTPError as error:
        return f"{error.headers}{error.read().decode()}"


def post(url, body, key):
    request = urllib.request.Request(url, json.dumps(body).encode(),
                                     {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return f"{reply.headers}{reply.read().decode()}"
    except urllib.error.HTTPError as error:
        return f"{error.headers}{error.read().decode()}"


def look_at_files(told, folder, but):
    for path in folder.rglob("*"):
        if path.is_file() and path not in but:
            told.add(f"file {path.relative_to(folder)}", path.read_bytes())
        told.add("names of files", str(path))


def test_a_server_shows_no_secret(repos, tmp_path):  # noqa: F811
    keys, tokens, registry = tmp_path / "keys.json", tmp_path / "tokens.json", tmp_path / "registry"
    keys.write_text(json.dumps([{"key": f"key-{tenant}", "tenant": tenant, "adapters": ["*"]} for tenant in "abc"]))
    tokens.write_text(json.dumps({tenant: PLANTED[tenant] for tenant in "ab"}))
    told = Told()
    # The first body is wrong, bodies are cut, the hub is busy, and only one tenant's token is good.
    with Hub(repos, token=PLANTED["a"], signature=PLANTED["signature"], wrong=1, cut=20_000, busy=1) as hub, \
            Collector() as collector, \
            Server("--source", "hub=hf:", "--allow", "hub/*", "--api-keys", keys, "--source-tokens", tokens, "--admin-key",
                   ADMIN_KEY, "--log-level", "debug", "--otlp-endpoint", collector.url, "--registry", registry,
                   "--tensor-parallel", 2,
                   env=environment(hub, tmp_path / "cache", HF_TOKEN=PLANTED["HF_TOKEN"])) as server:
        assert look_at_processes(told, server.process.pid) == 2  # with a rank's

        def ask(key, model, **more):
            try:
                reply = server.client(key).completions.create(model=model, prompt="It was", max_tokens=2, **more)
                told.add("answers", reply.model_dump_json())
                return reply
            except openai.APIStatusError as error:
                told.add("answers", f"{error} {error.response.headers} {error.response.text}")
        for model in ("hub/acme/gated-doyle", "hub/acme/austen", "hub/acme/broken", "hub/acme/none", "hub/../x", "x"):
            with concurrent.futures.ThreadPoolExecutor(3) as pool:
                list(pool.map(lambda tenant, model=model: ask(f"key-{tenant}", model), "abc"))
            told.add("log", server.log())
        assert ask("key-a", "hub/acme/gated-doyle")
        for body in ({"lora_name": "mine", "lora_path": "hub/acme/austen"}, {"lora_name": "x", "lora_path": "hub/acme/none"},
                     {"lora_name": "x", "lora_path": "hub/acme/gated-doyle"}):
            told.add("loads", post(f"{server.url}/v1/load_lora_adapter", body, ADMIN_KEY))
        for path in ("/v1/models", "/v1/models/hub/acme/gated-doyle", "/metrics", "/health", "/ready", "/dashboard",
                     "/dashboard/data", "/version"):
            for key in (None, "key-a", "key-b", ADMIN_KEY):
                told.add(path, page(server.url + path, key))
        assert "hub/acme/gated-doyle" in told.has("/v1/models") and "graft_" in told.has("/metrics")
        look_at_processes(told, server.process.pid)
        hub.process.kill()  # and a source that is away
        ask("key-b", "hub/acme/later")
        assert server.stop() == 0
        told.add("log", server.log())
        told.add("spans", b"".join(collector.bodies))
    assert "hub/acme/gated-doyle" in told.has("log") and "acme/austen" in told.has("spans")
    look_at_files(told, tmp_path, but={keys, tokens, *tmp_path.glob("*.log")})
    told.check()


def test_commands_show_no_secret(repos, tmp_path):  # noqa: F811
    put(repos, "acme/gated-wells", "wells")
    told = Told()
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "token").write_text(PLANTED["file"])

    def run(*args, **env):
        done = subprocess.run([binary(), *map(str, args)], env=environment(hub, cache, **env), capture_output=True, text=True,
                              timeout=120)
        told.add("standard output", done.stdout)
        told.add("standard error", done.stderr)
        return done.returncode

    with Hub(repos, token=PLANTED["file"], signature=PLANTED["signature"], wrong=1, busy=1) as hub:
        assert run("fetch", "acme/gated-wells", "--log-level", "debug") == 0
        # Refused, by the other token and by a proxy that is not there.
        assert run("fetch", "acme/gated-doyle", "--log-level", "debug", HF_TOKEN=PLANTED["HF_TOKEN"]) != 0
        proxy = f"http://user:{PLANTED['proxy']}@127.0.0.1:{free_port()}"
        assert run("fetch", "acme/austen", "--log-level", "debug", HF_ENDPOINT="http://hub.example.org", http_proxy=proxy,
                   no_proxy="", NO_PROXY="") != 0
        assert "hub.example.org" in told.has("standard error")
        assert run("generate", "--model", "acme/gated-doyle", "--prompt", "x", HF_TOKEN=PLANTED["HF_TOKEN"]) != 0
        assert run("serve", "--model", "acme/none", HF_TOKEN=PLANTED["HF_TOKEN"]) != 0
        tokens = tmp_path / "tokens.json"
        for text in (PLANTED["a"], json.dumps({"a": PLANTED["a"] + "\n"}), json.dumps([PLANTED["a"]]),
                     '{"a": %s}' % PLANTED["a"]):
            tokens.write_text(text)
            assert run("serve", "--model", DEMO / "base", "--source", "hub=hf:", "--allow", "*", "--source-tokens",
                       tokens) != 0
    with Hub(repos, signature=PLANTED["signature"], wrong=1000) as hub:
        assert run("fetch", "acme/broken", "--log-level", "debug") != 0
    assert told.has("standard error")
    look_at_files(told, tmp_path, but={tokens, cache / "token", *tmp_path.glob("*.log")})
    told.check()


def test_what_is_given_is_no_flag():
    """No flag takes a secret of a source: argument lists are open to all users of a machine."""
    for command in ("serve", "runner", "frontend", "fetch"):
        text = subprocess.run([binary(), command, "--help"], capture_output=True, text=True, timeout=60).stdout
        flags = set(re.findall(r"--[a-z0-9-]+", text))
        assert "--source" in flags or command == "fetch"
        secret = {flag for flag in flags if re.search("hf-token|secret|access-key|password|session-token", flag)}
        assert {flag for flag in secret if not flag.endswith("-file")} == set()
