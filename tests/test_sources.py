"""graft serve --source: adapters of a hub on loopback, by name while the server runs."""

import concurrent.futures
import json
import pathlib
import shutil
import time
import urllib.error
import urllib.request

import openai
import pytest

from conftest import ADMIN_KEY, DEMO, Server, complete
from test_fetch import SCAN, TOKEN, Hub, client, environment

OTHER = "hf_planted_secret_of_another"


def put(folder, name, adapter, branch="main", **config):
    target = folder / name / branch
    shutil.copytree(DEMO / "adapters" / adapter, target)
    if config:
        path = target / "adapter_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
    return target


@pytest.fixture
def repos(tmp_path):
    folder = tmp_path / "hub"
    put(folder, "acme/austen", "austen")
    put(folder, "acme/broken", "carroll", use_dora=True)
    put(folder, "acme/gated-doyle", "doyle")
    put(folder, "other/carroll", "carroll")
    shutil.copytree(DEMO / "base", folder / "acme/base/main")
    return folder


def serve(hub, tmp_path, *args, **env):
    return Server("--source", "hub=hf:", "--allow", "hub/acme/*", *args, env=environment(hub, tmp_path / "cache", **env))


def refused(server, model, key="none"):
    with pytest.raises(openai.APIStatusError) as caught:
        server.client(key).completions.create(model=model, prompt="It was", max_tokens=2)
    return caught.value


def resolves(hub):
    return [one["path"] for one in hub.asked() if "/resolve/" in one["path"]]


def test_a_name_is_fetched_once_and_served(repos, tmp_path):
    with Hub(repos) as hub, serve(hub, tmp_path) as server, Server() as local:
        wanted = complete(local, "austen")
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = set(pool.map(lambda _: complete(server, "hub/acme/austen"), range(16)))
        assert answers == {wanted}
        weights = [path for path in resolves(hub) if path.endswith("adapter_model.safetensors")]
        assert len(weights) == 1
        entry = server.client().models.retrieve("hub/acme/austen")
        commit = entry.revision
        assert len(commit) == 40
        asked = len(hub.asked())
        assert complete(server, "hub/acme/austen") == wanted
        assert len(hub.asked()) == asked
        # Pinned, under a name of its own.
        assert complete(server, f"hub/acme/austen@{commit}") == wanted
        assert [path for path in resolves(hub) if path.endswith("adapter_model.safetensors")] == weights
        # In a stream and in a sum.
        stream = server.client().completions.create(model="hub/acme/austen", prompt="It was", max_tokens=12,
                                                    temperature=0, stream=True)
        assert "".join(part.choices[0].text for part in stream if part.choices) == wanted
        reply = server.client().completions.create(
            model="base", prompt="It was", max_tokens=4, temperature=0,
            extra_body={"adapters": [{"name": "hub/acme/austen", "weight": 0.5}, {"name": "carroll"}]})
        assert reply.choices[0].text


def test_what_a_server_fetched_is_there_without_the_hub(repos, tmp_path):
    model = "hub/acme/austen"
    with Hub(repos) as hub, Server() as local:
        wanted = complete(local, "austen")
        with serve(hub, tmp_path) as server:
            assert complete(server, model) == wanted
        code = 'print(h.snapshot_download("acme/austen", local_files_only=True))'
        folder = pathlib.Path(client(hub, tmp_path / "cache", code))
        assert (folder / "adapter_model.safetensors").is_file()
        assert client(hub, tmp_path / "cache", SCAN) == ""
        asked = len(hub.asked())
        with serve(hub, tmp_path, HF_HUB_OFFLINE="1") as server:
            assert complete(server, model) == wanted
            assert server.client().models.retrieve(model).revision == folder.name
            assert refused(server, "hub/acme/none").status_code == 404
        assert len(hub.asked()) == asked


def test_the_disks_bound(repos, tmp_path):
    put(repos, "acme/large", "wells")
    with (repos / "acme/large/main/adapter_model.safetensors").open("ab") as file:
        file.write(bytes(4 << 20))
    blobs = lambda: [path for path in (tmp_path / "cache").rglob("blobs/*") if path.stat().st_size > 1000]
    with Hub(repos) as hub, serve(hub, tmp_path, "--source-disk-gib", 3 / 1024) as server:
        for _ in range(2):
            error = refused(server, "hub/acme/large")
            assert error.status_code == 400 and "larger than all adapters of sources" in str(error)
        assert not any("acme/large" in path for path in resolves(hub))
        # What is not fit to be served does not stay on the disk.
        assert refused(server, "hub/acme/broken").status_code == 400
        deadline = time.monotonic() + 60
        while blobs():
            assert time.monotonic() < deadline, blobs()
            time.sleep(0.01)
        assert complete(server, "hub/acme/austen")
        assert blobs()


def test_what_is_not_there_and_what_is_not_allowed(repos, tmp_path):
    with Hub(repos) as hub, serve(hub, tmp_path) as server:
        for model in ("hub/other/carroll", "other/carroll", "acme/austen", "hub/acme/../x", "http://127.0.0.1/x", "nothing",
                      "hub/169.254.169.254/latest"):
            assert refused(server, model).status_code == 404
        assert not hub.asked()
        assert refused(server, "hub/acme/none").status_code == 404
        asked = len(hub.asked())
        assert refused(server, "hub/acme/none").status_code == 404
        assert len(hub.asked()) == asked
        for _ in range(2):
            error = refused(server, "hub/acme/broken")
            assert error.status_code == 400 and "use_dora" in str(error)
        weights = [path for path in resolves(hub) if "acme/broken" in path and path.endswith(".safetensors")]
        assert len(weights) == 1
        assert str(tmp_path) not in str(error)
        error = refused(server, "hub/acme/base")
        assert error.status_code == 400 and "it is a base model, not an adapter" in str(error)
        assert server.alive() and complete(server, "austen")


def test_each_tenant_has_what_its_token_is_given(repos, tmp_path):
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps([{"key": f"key-{tenant}", "tenant": tenant, "adapters": ["*"]} for tenant in "abc"] +
                               [{"key": "key-d", "tenant": "d", "adapters": ["hub/acme/gated-doyle", "hub/other/none"]}]))
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps({"a": TOKEN, "b": OTHER}))
    with Hub(repos, token=TOKEN) as hub, Server() as local, \
            serve(hub, tmp_path, "--api-keys", keys, "--source-tokens", tokens, "--admin-key", ADMIN_KEY,
                  "--log-level", "debug", HF_TOKEN=TOKEN) as server:
        model = "hub/acme/gated-doyle"
        unknown = refused(server, "hub/acme/none", "key-b")
        first = refused(server, model, "key-b")
        def same(error, name):
            return error.status_code, str(error).replace(name, "N").split(" The nearest")[0].split("\"")[0]
        assert same(first, model) == same(unknown, "hub/acme/none")
        reply = server.client("key-a").completions.create(model=model, prompt="It was", max_tokens=12, temperature=0)
        assert reply.choices[0].text == complete(local, "doyle")
        for key in ("key-b", "key-c"):
            late = refused(server, model, key)
            assert (late.status_code, str(late)) == (404, str(first))  # the nearest names are the same
            assert model not in [entry.id for entry in server.client(key).models.list()]
        assert model in [entry.id for entry in server.client("key-a").models.list()]
        # Of a key's names that are not there, only those are told that no request could look up.
        log = server.log()
        assert "names the adapter 'hub/other/none'" in log and "names the adapter 'hub/acme/gated-doyle'" not in log
        told = log + str(first) + server.client(ADMIN_KEY).models.list().model_dump_json()
        for path in ("/metrics", "/health"):
            with urllib.request.urlopen(server.url + path) as page:
                told += page.read().decode()
        told += pathlib.Path(f"/proc/{server.process.pid}/cmdline").read_text()
        assert TOKEN not in told and OTHER not in told
        for path in (tmp_path / "cache").rglob("*"):
            assert not path.is_file() or TOKEN.encode() not in path.read_bytes()


def test_a_client_that_leaves_and_a_server_that_ends(repos, tmp_path):
    with Hub(repos, rate=20_000) as hub, concurrent.futures.ThreadPoolExecutor() as pool:
        with serve(hub, tmp_path, "--drain-seconds", 1) as server:
            with pytest.raises(openai.APITimeoutError):
                server.client().with_options(timeout=0.5).completions.create(model="hub/acme/austen", prompt="x")
            waiting = pool.submit(refused, server, "hub/acme/austen")
            while not any(path.endswith("safetensors") for path in resolves(hub)):
                time.sleep(0.01)
            assert complete(server, "carroll")
        # It ended with 0, which Server.__exit__ has seen, a minute before the fetch would have.
        assert waiting.result().status_code == 503


def load(server, **body):
    request = urllib.request.Request(server.url + "/v1/load_lora_adapter", json.dumps(body).encode(),
                                     {"Content-Type": "application/json", "Authorization": f"Bearer {ADMIN_KEY}"})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_an_admin_loads_by_a_sources_name(repos, tmp_path):
    with Hub(repos) as hub, serve(hub, tmp_path, "--admin-key", ADMIN_KEY) as server, Server() as local:
        status, entry = load(server, lora_name="jane", lora_path="hub/acme/austen")
        assert status == 200 and len(entry["revision"]) == 40, entry
        assert complete(server, "jane") == complete(local, "austen")
        assert [one.id for one in server.client().models.list() if one.id.startswith("hub/")] == []
        asked = len(hub.asked())
        for body, code in (({"lora_name": "x", "lora_path": "hub/other/carroll"}, 404),
                           ({"lora_name": "x", "lora_path": "other/carroll"}, 404),
                           ({"lora_name": "x", "lora_path": hub.url + "/acme/austen"}, 400),
                           ({"lora_name": "x", "lora_path": "hf://acme/austen"}, 400),
                           ({"lora_name": "x", "lora_path": "s3://acme/austen"}, 400),
                           ({"lora_name": "hub/acme/austen", "lora_path": "hub/acme/austen"}, 400)):
            status, told = load(server, **body)
            assert status == code and str(tmp_path) not in json.dumps(told), (body, told)
            if code == 404 or "://" in body["lora_path"]:
                assert len(hub.asked()) == asked
        for path, code in (("hub/acme/none", 404), ("hub/acme/broken", 400)):
            status, told = load(server, lora_name="x", lora_path=path)
            assert status == code and str(tmp_path) not in json.dumps(told), told
        # A folder's name is one as before, and a newer revision is had by another load.
        assert load(server, lora_name="mine", lora_path="doyle")[0] == 200
        shutil.rmtree(repos / "acme" / "austen" / "main")
        put(repos, "acme/austen", "wells")
        assert complete(server, "jane") == complete(local, "austen")
        assert load(server, lora_name="jane", lora_path="hub/acme/austen")[0] == 409
        status, newer = load(server, lora_name="jane", lora_path="hub/acme/austen", load_inplace=True)
        assert status == 200 and newer["revision"] != entry["revision"]
        assert complete(server, "jane") == complete(local, "wells")


def test_loads_where_there_is_no_folder_say_what_to_do(repos, tmp_path):
    with Hub(repos) as hub:
        server = serve(hub, tmp_path, "--admin-key", ADMIN_KEY)
        at = server.args.index("--adapters")
        del server.args[at:at + 2]
        with server:
            for path, code, words in (("hub/other/carroll", 404, "a pattern of --allow"), ("carroll", 404, "--adapters DIR"),
                                      ("hf://acme/austen", 400, "is an address")):
                status, told = load(server, lora_name="x", lora_path=path)
                assert status == code and words in told["error"]["message"], told
            assert not hub.asked()
            assert load(server, lora_name="x", lora_path="hub/acme/austen")[0] == 200


def test_flags_that_do_not_go_together(tmp_path):
    for args, words in ((("--source", "hub=hf:"), "--source needs --allow"),
                        (("--allow", "x"), "name one by --source"),
                        (("--source", "hub=http://127.0.0.1", "--allow", "*"), "is of no kind that is known")):
        with pytest.raises(RuntimeError, match=words):
            Server(*args).start()
