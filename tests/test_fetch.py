"""graft fetch and --model ORG/NAME against a hub on loopback, and against Hugging Face's own client on one cache."""

import concurrent.futures
import http.server
import json
import os
import pathlib
import resource
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time

import pytest

from conftest import DEMO, LONG_TESTS, Server, binary, complete, free_port, wait_listening
from test_cluster import make_authority

huggingface_hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed (tests/requirements.txt)")
TOKEN = "hf_planted_secret_of_tests"
PART = 8 << 20


class Hub:
    """A hub with the repositories of `folder`."""

    def __init__(self, folder, **options):
        self.port, self.log = free_port(), folder.parent / f"{folder.name}-{time.monotonic_ns()}.log"
        flags = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        self.args = [sys.executable, str(pathlib.Path(__file__).with_name("fake_hub.py")), str(folder), "--port",
                     str(self.port), "--cdn-port", str(free_port()), "--log", str(self.log), *flags]

    def __enter__(self):
        self.process = subprocess.Popen(self.args)
        wait_listening(self.port, self.process)
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def asked(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []


def environment(hub, cache, **more):
    """Nothing of what the machine's owner has set for hubs."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "AWS_"))}
    return {**clean, "HF_ENDPOINT": hub.url, "HF_HOME": str(cache), "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", **more}


def fetch(hub, cache, *args, **kwargs):
    return subprocess.run([binary(), "fetch", *args], env=environment(hub, cache), capture_output=True, text=True,
                          timeout=120, **kwargs)


def fetched(hub, cache, *args):
    run = fetch(hub, cache, *args)
    assert run.returncode == 0, run.stderr
    return pathlib.Path(run.stdout.strip())


def client(hub, cache, code, **more):
    """The output of lines of Python that use Hugging Face's client."""
    run = subprocess.run([sys.executable, "-W", "error", "-c", "import huggingface_hub as h\n" + code],
                         env=environment(hub, cache, **more), capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


SCAN = "for w in h.scan_cache_dir().warnings: print(w)"


@pytest.fixture(scope="module")
def repos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    base = folder / "org" / "base" / "main"
    shutil.copytree(DEMO / "base", base)
    (base / "README.md").write_text("a model")
    (base / "pytorch_model.bin").write_bytes(b"pickle")
    (base / "original").mkdir()
    (base / "original" / "consolidated.00.pth").write_bytes(b"pickle")
    large = folder / "org" / "large" / "main"
    large.mkdir(parents=True)
    (large / "config.json").write_text("{}")
    block = os.urandom(1 << 20)
    shards = [f"model-{i:05}-of-00002.safetensors" for i in (1, 2)]
    for i, shard in enumerate(shards):
        (large / shard).write_bytes(b"".join(bytes([i, j]) + block for j in range(20)))
    (large / "model.safetensors.index.json").write_text(json.dumps({"weight_map": dict(zip("ab", shards))}))
    shutil.copytree(DEMO / "adapters" / "austen", folder / "org" / "gated-austen" / "main")
    return folder


def same_files(folder, source):
    for path in folder.rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (source / path.relative_to(folder)).read_bytes(), path


def test_the_hubs_client_reads_what_graft_wrote(repos, tmp_path):
    with Hub(repos, page=3) as hub:
        folder = fetched(hub, tmp_path, "org/base")
        same_files(folder, repos / "org/base/main")
        assert next(folder.glob("*.safetensors")).is_symlink()
        for left_out in ("README.md", "pytorch_model.bin", "original"):
            assert not (folder / left_out).exists()
        assert client(hub, tmp_path, SCAN) == ""
        code = 'print(h.snapshot_download("org/base", local_files_only=True))'
        assert client(hub, tmp_path, code) == str(folder)
        assert client(hub, tmp_path, code, HF_HUB_OFFLINE="1") == str(folder)
        asked = len(hub.asked())
        assert client(hub, tmp_path, 'from huggingface_hub.file_download import _CACHED_NO_EXIST\n'
                                     'print(h.try_to_load_from_cache("org/base", "vocab.json") is _CACHED_NO_EXIST)') == "True"
        assert len(hub.asked()) == asked
        # The client then fetches the rest alone.
        client(hub, tmp_path, 'h.snapshot_download("org/base")')
        bodies = [one["path"] for one in hub.asked()[asked:] if one["method"] == "GET" and one["status"] == 200]
        assert not any(".safetensors" in path for path in bodies)
        assert client(hub, tmp_path, SCAN) == ""


def test_graft_reads_what_the_hubs_client_wrote(repos, tmp_path):
    with Hub(repos) as hub:
        folder = client(hub, tmp_path, 'print(h.snapshot_download("org/base"))')
        commit = pathlib.Path(folder).name
        run = subprocess.run([binary(), "fetch", "org/base"], env=environment(hub, tmp_path, HF_HUB_OFFLINE="1"),
                             capture_output=True, text=True)
        assert run.stdout.strip() == folder, run.stderr
        sent = len(hub.asked())
        assert str(fetched(hub, tmp_path, f"org/base@{commit}")) == folder
        assert not any("resolve" in one["path"] for one in hub.asked()[sent:])
    # The hub is away: what the cache has is taken, and the log says so.
    run = fetch(hub, tmp_path, "org/base")
    assert run.stdout.strip() == folder and "taken as the cache has it" in run.stderr


def test_both_at_once(repos, tmp_path):
    with Hub(repos, rate=40_000_000) as hub, concurrent.futures.ThreadPoolExecutor() as pool:
        ours = [pool.submit(fetched, hub, tmp_path, "org/large", "--quiet") for _ in range(2)]
        theirs = pool.submit(client, hub, tmp_path, 'print(h.snapshot_download("org/large"))')
        folders = {str(one.result()) for one in ours} | {theirs.result()}
        assert len(folders) == 1
        same_files(pathlib.Path(folders.pop()), repos / "org/large/main")
        assert client(hub, tmp_path, SCAN) == ""
        assert not list(tmp_path.rglob("*.incomplete*"))


def test_cut_and_busy_and_wrong_once(repos, tmp_path):
    with Hub(repos, cut=5_000_000, wrong=1, busy=2) as hub:
        same_files(fetched(hub, tmp_path, "org/large"), repos / "org/large/main")
        assert [one["status"] for one in hub.asked()].count(429) == [one["status"] for one in hub.asked()].count(503) == 1


def bytes_sent(hub):
    """Of bodies from the CDN that were asked for: at most what was sent."""
    sent = 0
    for one in hub.asked():
        if one["status"] == 206 and one["port"] != hub.port:
            begin, end = one["headers"]["Range"].removeprefix("bytes=").split("-")
            sent += int(end) + 1 - int(begin)
    return sent


def finished_parts(path):
    """Of a shard: the lists of small files are there for a moment, too."""
    try:
        return f"{(20 << 20) + 40} {PART} " in path.read_text()
    except FileNotFoundError:
        return False


def test_a_killed_fetch_goes_on(repos, tmp_path):
    with Hub(repos, rate=20_000_000) as hub:
        process = subprocess.Popen([binary(), "fetch", "org/large", "--quiet", "--connections", "1"],
                                   env=environment(hub, tmp_path))
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if any(finished_parts(path) for path in tmp_path.rglob("*.parts")):
                break
            time.sleep(0.01)
        process.kill()
        process.wait()
        assert not list(tmp_path.rglob("snapshots/*/model-*"))  # nothing half written has a name
    with Hub(repos) as hub:
        folder = fetched(hub, tmp_path, "org/large", "--connections", "1")
        same_files(folder, repos / "org/large/main")
        # The finished part was not fetched again.
        assert bytes_sent(hub) <= 2 * ((20 << 20) + 40) - PART
        assert not list(tmp_path.rglob("*.incomplete*"))


@pytest.mark.skipif(not LONG_TESTS, reason="300 MB through a hub in Python")
def test_300_mb_in_shards_among_faults(tmp_path):
    """Cut every 20 MB, wrong bytes once, 429 and 503, and killed three times on the way."""
    large = tmp_path / "hub" / "org" / "large" / "main"
    large.mkdir(parents=True)
    (large / "config.json").write_text("{}")
    shards = [f"model-{i + 1:05}-of-00006.safetensors" for i in range(6)]
    for shard in shards:
        (large / shard).write_bytes(os.urandom(50 << 20))
    (large / "model.safetensors.index.json").write_text(json.dumps({"weight_map": dict(zip("abcdef", shards))}))
    with Hub(tmp_path / "hub", cut=20_000_000, wrong=1, busy=2, rate=60_000_000) as hub:
        cache = tmp_path / "cache"
        for kill in range(3):
            process = subprocess.Popen([binary(), "fetch", "org/large", "--quiet"], env=environment(hub, cache))
            deadline = time.monotonic() + 120
            while bytes_sent(hub) < (kill + 1) * (60 << 20) and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            process.kill()
            process.wait()
            assert not list(cache.rglob("snapshots/*/config.json"))
        same_files(fetched(hub, cache, "org/large"), large)
        # Eight connections have a part each that a kill costs; the wrong file is fetched once more.
        assert bytes_sent(hub) <= (350 << 20) + 3 * 8 * 2 * PART
        assert not list(cache.rglob("*.incomplete*"))


def test_a_full_disk_is_told_and_leaves_nothing(repos, tmp_path):
    with Hub(repos) as hub:
        run = fetch(hub, tmp_path, "org/large", restore_signals=False,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10 << 20, 10 << 20)))
        assert run.returncode != 0 and "the disk is full, or a quota or limit is reached" in run.stderr
        assert not list(tmp_path.rglob("*.incomplete*"))
        same_files(fetched(hub, tmp_path, "org/large"), repos / "org/large/main")


def test_a_revision_that_moves_while_it_is_fetched(repos, tmp_path):
    moving = tmp_path / "hub" / "org" / "large"
    for commit in ("a", "b"):  # whichever main leads to; both stay
        shutil.copytree(repos / "org" / "large" / "main", moving / commit)
    (moving / "b" / "config.json").write_text('{"next": true}')
    (moving / "main").symlink_to("a")
    (moving / "new").symlink_to("b")
    with Hub(tmp_path / "hub", rate=30_000_000) as hub, concurrent.futures.ThreadPoolExecutor() as pool:
        first = pool.submit(fetched, hub, tmp_path / "cache", "org/large")
        while not any("resolve" in one["path"] for one in hub.asked()):
            time.sleep(0.01)
        (moving / "new").replace(moving / "main")
        old = first.result()
        assert (old / "config.json").read_text() == "{}"
        new = fetched(hub, tmp_path / "cache", "org/large")
        assert new != old and json.loads((new / "config.json").read_text()) == {"next": True}
        assert fetched(hub, tmp_path / "cache", f"org/large@{old.name}") == old


@pytest.mark.parametrize("address", ["169.254.169.254", "10.1.2.3", "[fe80::1]", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]",
                                     "2852039166"])
def test_redirects_into_inner_networks_are_refused_and_told(repos, tmp_path, address):
    with Hub(repos, elsewhere=f"http://{address}/latest/meta-data") as hub:
        run = fetch(hub, tmp_path, "org/large")
        assert run.returncode != 0 and "refused to connect" in run.stderr, run.stderr
        assert not list(tmp_path.rglob("snapshots/*/model-*"))


class Downgrade(http.server.BaseHTTPRequestHandler):
    """A hub by https whose files are said to lie at an address of http."""

    log_message = lambda self, *unused: None

    def do_GET(self):
        body = json.dumps({"sha": "a" * 40} if "/revision/" in self.path else self.server.rows).encode()
        self.send_response(302 if "/resolve/" in self.path else 200)
        self.send_header("Location", self.server.elsewhere)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_from_https_to_http_nothing_is_followed(repos, tmp_path):
    authority = make_authority(tmp_path / "authority", "ours")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(authority / "cert.pem", authority / "key.pem")
    with Hub(repos) as plain, http.server.ThreadingHTTPServer(("127.0.0.1", 0), Downgrade) as secure:
        secure.socket = tls.wrap_socket(secure.socket, server_side=True)
        secure.elsewhere = f"{plain.url}/org/base/resolve/main/config.json"
        secure.rows = [{"type": "file", "path": path, "size": 2, "oid": "b" * 40} for path in ("config.json", "model.safetensors")]
        threading.Thread(target=secure.serve_forever, daemon=True).start()
        env = environment(plain, tmp_path / "cache", HF_TOKEN=TOKEN, HF_ENDPOINT=f"https://127.0.0.1:{secure.server_address[1]}")

        def told(**more):
            run = subprocess.run([binary(), "fetch", "org/name"], env={**env, **more}, capture_output=True, text=True, timeout=120)
            assert run.returncode != 0 and TOKEN not in run.stderr
            return run.stderr
        assert "from https to http" in told(CURL_CA_BUNDLE=str(authority / "ca.pem"))
        assert "names a file of certificates to trust" in told()
        secure.shutdown()
        assert not plain.asked()


def test_tokens_are_asked_for_and_told_to_nobody(repos, tmp_path):
    with Hub(repos, token=TOKEN) as hub:
        run = fetch(hub, tmp_path, "org/gated-austen")
        assert run.returncode != 0 and "ask at" in run.stderr and "set HF_TOKEN" in run.stderr
        (tmp_path / "token").write_text(TOKEN + "\n")
        run = fetch(hub, tmp_path, "org/gated-austen", "--log-level", "debug")
        assert run.returncode == 0, run.stderr
        same_files(pathlib.Path(run.stdout.strip()), repos / "org/gated-austen/main")
        for one in hub.asked():
            assert one["port"] == hub.port or "Authorization" not in one["headers"]
        refused = fetch(hub, tmp_path, "org/missing")
        assert refused.returncode != 0 and "there is no 'org/missing'" in refused.stderr
        for text in (run.stdout, run.stderr, refused.stderr):
            assert TOKEN not in text
        for path in tmp_path.rglob("*"):
            assert path.name == "token" or not path.is_file() or TOKEN.encode() not in path.read_bytes(), path


def test_a_process_with_a_token_leaves_no_core_file(repos, tmp_path):
    def dumps(hub, **more):
        process = subprocess.Popen([binary(), "fetch", "org/large", "--quiet"], cwd=tmp_path,
                                   env=environment(hub, tmp_path, **more),
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (-1, -1)))
        while not list(tmp_path.rglob("*.incomplete")):
            time.sleep(0.01)
        assert TOKEN.encode() not in pathlib.Path(f"/proc/{process.pid}/cmdline").read_bytes()
        process.send_signal(signal.SIGQUIT)
        status = os.waitpid(process.pid, 0)[1]
        process.returncode = 0
        return os.WCOREDUMP(status)

    with Hub(repos, rate=2_000_000) as hub:
        assert not dumps(hub, HF_TOKEN=TOKEN)
        if not dumps(hub):
            pytest.skip("this machine writes no core files at all")


def test_a_server_serves_a_model_by_its_name(repos, tmp_path):
    with Hub(repos) as hub:
        with Server(model="org/base", env=environment(hub, tmp_path)) as server, Server() as local:
            assert complete(server, "org/base") == complete(local, "base")
            assert server.client().models.retrieve("org/base").revision == next(tmp_path.rglob("refs/main")).read_text()
            assert "revision" not in local.client().models.retrieve("base").model_dump()
            assert complete(server, "austen") == complete(local, "austen")
        run = subprocess.run([binary(), "generate", "--model", "org/none", "--prompt", "x"], capture_output=True,
                             text=True, env=environment(hub, tmp_path))
        assert run.returncode != 0
        assert "is no folder here" in run.stderr and "there is no 'org/none'" in run.stderr


def test_a_local_folder_wins(repos, tmp_path):
    shutil.copytree(DEMO / "base", tmp_path / "org" / "base")
    with Hub(repos) as hub:
        run = subprocess.run([binary(), "generate", "--model", "org/base", "--prompt", "It was", "--max-tokens", "2",
                              "--quiet"], capture_output=True, text=True, cwd=tmp_path,
                             env=environment(hub, tmp_path / "cache"))
        assert run.returncode == 0, run.stderr
        assert not hub.asked()


def test_names_that_are_no_names_ask_nothing(repos, tmp_path):
    with Hub(repos) as hub:
        for name in ("../../etc", "org/../x", "org/name@../main", "http://127.0.0.1/x", "org/na\nme", "org"):
            run = fetch(hub, tmp_path, name)
            assert run.returncode != 0 and " is no " in run.stderr, name
        assert not hub.asked()
