"""graft fetch s3://... against moto, which checks signatures, and the same through boto3."""

import os
import pathlib
import subprocess
import sys
import time
import urllib.request

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


def test_a_server_serves_a_model_of_a_store(store):
    store.put(DEMO / "base", "models/small")
    with Server(model="s3://shelf/models/small", env=store.env()) as server, Server() as local:
        assert complete(server, "small") == complete(local, "base")
        assert complete(server, "austen") == complete(local, "austen")
