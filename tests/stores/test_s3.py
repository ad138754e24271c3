"""graft fetch s3://... against moto, which checks signatures, and the same through boto3."""

import contextlib
import http.server
import os
import pathlib
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import openai
import pytest

from conftest import DEMO, Server, binary, complete, free_port, wait_listening

boto3 = pytest.importorskip("boto3", reason="moto and boto3 are not installed (tests/stores/requirements.txt)")
pytest.importorskip("moto", reason="moto and boto3 are not installed (tests/stores/requirements.txt)")
SECRETS = ("planted-secret-key-of-tests", "planted-session-token-of-tests")


class Store:
    """moto with a user's keys; `env` has them. After the set-up it takes signed requests alone."""

    def __init__(self, cache):
        self.port, self.cache = free_port(), cache

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        # The user, its policy and its key; then every request needs a signature.
        self.process = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
                                        env={**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "3"},
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_listening(self.port, self.process)
        made = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "region_name": "us-east-1",
                "endpoint_url": self.url}
        iam = boto3.client("iam", **made)
        iam.create_user(UserName="graft")
        policy = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}'
        iam.put_user_policy(UserName="graft", PolicyName="all", PolicyDocument=policy)
        self.keys = iam.create_access_key(UserName="graft")["AccessKey"]
        self.s3 = boto3.client("s3", **{**made, "aws_access_key_id": self.keys["AccessKeyId"],
                                        "aws_secret_access_key": self.keys["SecretAccessKey"]})
        self.s3.create_bucket(Bucket="shelf")
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()

    def env(self, **more):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "AWS_"))}
        return {**clean, "AWS_ENDPOINT_URL_S3": self.url, "AWS_ACCESS_KEY_ID": self.keys["AccessKeyId"],
                "AWS_SECRET_ACCESS_KEY": self.keys["SecretAccessKey"], "XDG_CACHE_HOME": str(self.cache), **more}

    def put(self, folder, prefix, **more):
        for path in folder.rglob("*"):
            if path.is_file():
                self.s3.put_object(Bucket="shelf", Key=f"{prefix}/{path.relative_to(folder)}", Body=path.read_bytes(),
                                   **more)

    def fetch(self, name, **env):
        return subprocess.run([binary(), "fetch", name], env=self.env(**env), capture_output=True, text=True, timeout=120)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "cache") as running:
        yield running


def same_files(folder, source):
    paths = [path for path in folder.rglob("*") if path.is_file()]
    assert paths
    for path in paths:
        assert path.read_bytes() == (source / path.relative_to(folder)).read_bytes(), path


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
def test_an_adapter_with_check_sums(store, algorithm):
    try:
        store.put(DEMO / "adapters" / "austen", "a b+c/é/austen", ChecksumAlgorithm=algorithm)
    except Exception as error:  # noqa: BLE001: boto3 without the library of CRCs
        pytest.skip(str(error))
    run = store.fetch("s3://shelf/a b+c/é/austen")
    assert run.returncode == 0, run.stderr
    same_files(pathlib.Path(run.stdout.strip()), DEMO / "adapters" / "austen")


def test_many_pages_versions_and_other_objects(store):
    for i in range(1100):
        store.s3.put_object(Bucket="shelf", Key=f"many/checkpoint-{i:04}/x", Body=b"x")
    store.s3.put_bucket_versioning(Bucket="shelf", VersioningConfiguration={"Status": "Enabled"})
    store.put(DEMO / "adapters" / "carroll", "many")
    first = store.fetch("s3://shelf/many")
    assert first.returncode == 0, first.stderr
    same_files(pathlib.Path(first.stdout.strip()), DEMO / "adapters" / "carroll")
    store.s3.put_object(Bucket="shelf", Key="many/adapter_config.json", Body=b"{}")
    second = store.fetch("s3://shelf/many")
    assert second.returncode == 0 and second.stdout != first.stdout
    same_files(pathlib.Path(first.stdout.strip()), DEMO / "adapters" / "carroll")


def test_refusals_name_no_secret(store):
    for env, words in (({"AWS_SECRET_ACCESS_KEY": SECRETS[0]}, "the keys may not read it"),
                       ({"AWS_ACCESS_KEY_ID": "AKIANOBODY", "AWS_SECRET_ACCESS_KEY": SECRETS[0],
                         "AWS_SESSION_TOKEN": SECRETS[1]}, "the keys may not read it")):
        run = store.fetch("s3://shelf/x", **env)
        assert run.returncode != 0 and words in run.stderr, run.stderr
        assert not any(secret in run.stdout + run.stderr for secret in SECRETS)
    run = store.fetch("s3://shelf/nothing")
    assert run.returncode != 0 and "there is nothing at s3://shelf/nothing" in run.stderr
    for path in store.cache.rglob("*"):
        assert not path.is_file() or store.keys["SecretAccessKey"].encode() not in path.read_bytes()


def test_a_killed_fetch_goes_on_and_needs_no_room_twice(store, tmp_path):
    part, size = 8 << 20, 40 << 20
    source = tmp_path / "large"
    source.mkdir()
    (source / "adapter_config.json").write_text("{}")
    (source / "adapter_model.safetensors").write_bytes(os.urandom(size))
    store.put(source, "large", ChecksumAlgorithm="SHA256")
    # A disk on which what is fetched has room once, and the reserve beside it.
    disk = tmp_path / "disk"
    disk.mkdir()
    is_small = os.getuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80m", "none", str(disk)],
                                                   capture_output=True).returncode == 0
    try:
        with Relay(store.port, rate=20_000_000) as relay:
            slow = {"AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{relay.port}", "XDG_CACHE_HOME": str(disk)}
            process = subprocess.Popen([binary(), "fetch", "s3://shelf/large", "--quiet", "--connections", "1"],
                                       env=store.env(**slow))

            def finished():
                return sum(path.read_text().count("\n") for path in disk.rglob("*.parts") if "config" not in path.name)
            deadline = time.monotonic() + 60
            while finished() < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            process.kill()
            process.wait()
            kept = finished()
            assert kept >= 2 and not list(disk.rglob("*/current"))
            sent = relay.sent
            run = store.fetch("s3://shelf/large", **slow)
            assert run.returncode == 0, run.stderr
            same_files(pathlib.Path(run.stdout.strip()), source)
            # Beside the bytes: listings and headers.
            assert relay.sent - sent <= size - kept * part + (1 << 20)
    finally:
        if is_small:
            subprocess.run(["umount", str(disk)], check=True)


class Relay:
    """A port that passes on to another one, at a rate, and counts what comes back."""

    def __init__(self, target, rate):
        self.port, self.target, self.rate, self.sent = free_port(), target, rate, 0

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *unused):
        self.listener.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
                threading.Thread(target=self.copy, args=(near, far, False), daemon=True).start()
                threading.Thread(target=self.copy, args=(far, near, True), daemon=True).start()

    def copy(self, source, sink, counts):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if counts:
                    time.sleep(len(data) / self.rate)
                    self.sent += len(data)
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def test_a_server_with_a_store_shows_no_secret(store, tmp_path):
    store.put(DEMO / "adapters" / "austen", "adapters/austen")
    store.put(DEMO / "adapters" / "austen", "adapters/none")
    store.s3.delete_object(Bucket="shelf", Key="adapters/none/adapter_model.safetensors")
    keys = (store.keys["SecretAccessKey"], *SECRETS)
    told = []
    bodies = []
    with collector(bodies) as url, Server("--source", "shelf=s3://shelf/adapters", "--allow", "shelf/*", "--log-level", "debug",
                                          "--otlp-endpoint", url, "--admin-key", "admin", env=store.env()) as server:
        with Server() as local:
            assert complete(server, "shelf/austen") == complete(local, "austen")
        for model in ("shelf/none", "shelf/nothing", "shelf/../x", "s3://shelf/adapters/austen", "shelf/none"):
            with pytest.raises(openai.APIStatusError) as caught:
                complete(server, model)
            told.append(f"{caught.value} {caught.value.response.headers}")
            assert caught.value.status_code == (400 if model == "shelf/none" else 404)
        for path in ("/v1/models", "/metrics", "/health"):
            with urllib.request.urlopen(server.url + path) as reply:
                told.append(reply.read().decode())
        assert re.search('"revision":"[0-9a-f]{40}"', told[-3])
        told.append(pathlib.Path(f"/proc/{server.process.pid}/cmdline").read_text())
        core = re.search(r"Max core file size +(\S+) +(\S+)", pathlib.Path(f"/proc/{server.process.pid}/limits").read_text())
        assert core.groups() == ("0", "0")
        assert server.stop() == 0
        told.append(server.log())
    assert b"shelf/austen" in b"".join(bodies)
    told.append(b"".join(bodies).decode(errors="replace"))
    # Keys that are refused, and those of a web identity whose service is not there.
    identity = tmp_path / "identity"
    identity.write_text(SECRETS[0])
    for more in ({"AWS_SECRET_ACCESS_KEY": SECRETS[0], "AWS_SESSION_TOKEN": SECRETS[1]},
                 {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_ROLE_ARN": "arn:aws:iam::1:role/x",
                  "AWS_WEB_IDENTITY_TOKEN_FILE": str(identity), "AWS_ENDPOINT_URL_STS": "http://127.0.0.1:1",
                  "XDG_CACHE_HOME": str(tmp_path / "none")}):
        run = subprocess.run([binary(), "fetch", "s3://shelf/adapters/austen", "--log-level", "debug"], env=store.env(**more),
                             capture_output=True, text=True, timeout=120)
        assert run.returncode != 0
        told.append(run.stdout + run.stderr)
    for path in store.cache.rglob("*"):
        told.append(str(path) + (path.read_bytes().decode(errors="replace") if path.is_file() else ""))
    for secret in keys:
        assert not any(secret in text for text in told)
        assert not any("X-Amz-Signature" in text or "AWS4-HMAC" in text for text in told)


@contextlib.contextmanager
def collector(bodies):
    class Handler(http.server.BaseHTTPRequestHandler):
        log_message = lambda self, *unused: None

        def do_POST(self):
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


def test_a_server_serves_a_model_of_a_store(store):
    store.put(DEMO / "base", "models/small")
    with Server(model="s3://shelf/models/small", env=store.env()) as server, Server() as local:
        assert complete(server, "small") == complete(local, "base")
        assert complete(server, "austen") == complete(local, "austen")
