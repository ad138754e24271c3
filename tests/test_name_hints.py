"""What a 404's nearest names tell: names that the key may use, at every place that looks a model up, at a server and at a
cluster's frontend."""

import contextlib
import json
import os

import openai
import pytest
from conftest import Server, binary
from test_cluster import Frontend, Runner

KEYS = [{"key": "a-key", "tenant": "a", "adapters": ["*"], "tenant_adapters": ["doyle"]},
        {"key": "b-key", "tenant": "b", "adapters": ["*"]},
        {"key": "c-key", "tenant": "c", "adapters": ["w*", "base"]},
        {"key": "d-key", "tenant": "d", "adapters": ["base", "doyle"]}]


def refusals(client, name):
    """The messages of all endpoints about a model of that name."""
    plain = client.with_options(base_url=str(client.base_url).removesuffix("/v1/"))
    for ask in (lambda: client.completions.create(model=name, prompt="x"),
                lambda: client.chat.completions.create(model=name, messages=[{"role": "user", "content": "x"}]),
                lambda: client.completions.create(model="base", prompt="x", extra_body={"adapters": [{"name": name}]}),
                lambda: client.responses.create(model=name, input="x"),
                lambda: client.embeddings.create(model=name, input="x"),
                lambda: plain.post("/tokenize", body={"model": name, "prompt": "x"}, cast_to=object),
                lambda: plain.post("/detokenize", body={"model": name, "tokens": [5]}, cast_to=object),
                lambda: client.models.retrieve(name)):
        with pytest.raises(openai.NotFoundError) as refused:
            ask()
        yield refused.value.body["message"]


@contextlib.contextmanager
def frontend(*args):
    runner = Runner().start()
    runner.wait_for("runner of")
    running = Frontend([runner], *args).start()
    running.wait_for("is up")
    running.wait_for("frontend of")
    yield running
    assert [process.stop() for process in (running, runner)] == [0, 0]


needs_cluster = pytest.mark.skipif(
    not os.path.exists(os.path.join(os.path.dirname(binary()), "libgraft_cluster.so")), reason="built without gRPC")


@needs_cluster
def test_a_frontend_tells_of_names_in_keys_that_no_runner_has(tmp_path):
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps([{"key": "k", "tenant": "t", "adapters": ["autsen"], "tenant_adapters": ["doyl"]}]))
    with frontend("--api-keys", keys) as running:
        running.wait_for("names the adapter 'autsen', which is not there; did it mean 'austen'?")
        running.wait_for("names the adapter 'doyl'")


@pytest.mark.parametrize("start", [Server, pytest.param(frontend, marks=needs_cluster)])
def test_hints_are_of_what_the_key_may_use(start, tmp_path):
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(KEYS))
    with start("--api-keys", keys) as server:
        for message in refusals(server.client("a-key"), "doyl"):
            assert "'doyle'" in message, message
        for key, names in (("b-key", ("doyl", "doyle")), ("c-key", ("doyl", "doyle")), ("d-key", ("doyl", "doyle"))):
            for name in names:
                for message in refusals(server.client(key), name):
                    assert "names are" not in message, (key, message)
        for message in refusals(server.client("c-key"), "wels"):
            assert "'wells'" in message, message
