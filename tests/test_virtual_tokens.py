"""Prompt and prefix tuning over HTTP: loaded, listed, asked, replaced and unloaded by clients, refused with reasons. Numbers
are compared with PEFT's elsewhere (test_features.py, virtual_tokens_golden_test)."""

import asyncio
import hashlib
import json
import random
import shutil
import struct
import urllib.error
import urllib.request

import openai
import pytest

from conftest import ADMIN_KEY, DEMO, Server

PROMPT = "It was a dark and stormy night, and"
BASE = json.loads((DEMO / "base" / "config.json").read_text())
KV_SIZE = BASE["num_key_value_heads"] * BASE["head_dim"]


def write_adapter(folder, method, num_tokens, columns, seed, poison=None, **config):
    """A PEFT folder with random virtual tokens."""
    rng = random.Random(seed)
    values = [rng.gauss(0, 0.3) for _ in range(num_tokens * columns)]
    if poison is not None:
        values[columns + 1] = poison
    data = struct.pack(f"<{len(values)}f", *values)
    entry = {"dtype": "F32", "shape": [num_tokens, columns], "data_offsets": [0, len(data)]}
    header = json.dumps({"prompt_embeddings": entry}).encode()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + data)
    config = {"peft_type": method, "task_type": "CAUSAL_LM", "num_virtual_tokens": num_tokens, **config}
    (folder / "adapter_config.json").write_text(json.dumps(config))


def write_soft(folder, seed=1, num_tokens=20, **kwargs):
    write_adapter(folder, "PROMPT_TUNING", num_tokens, BASE["hidden_size"], seed, **kwargs)


def write_prefix(folder, seed=1, num_tokens=20, **kwargs):
    write_adapter(folder, "PREFIX_TUNING", num_tokens, 2 * BASE["num_hidden_layers"] * KV_SIZE, seed, **kwargs)


@pytest.fixture(scope="module")
def adapters(tmp_path_factory):
    folder = tmp_path_factory.mktemp("virtual") / "adapters"
    write_soft(folder / "soft")
    write_prefix(folder / "prefix")
    (folder / "austen").symlink_to(DEMO / "adapters" / "austen")
    return folder


@pytest.fixture(scope="module")
def served(adapters):
    with Server("--dtype", "fp32", "--admin-key", ADMIN_KEY, "--adapters-root", DEMO / "adapters",
                adapters=adapters) as server:
        yield server


def complete(server, model, **kwargs):
    return server.client().completions.create(**{"model": model, "prompt": PROMPT, "max_tokens": 12, "temperature": 0,
                                                 **kwargs})


def text(server, model, **kwargs):
    return complete(server, model, **kwargs).choices[0].text


def marks(server, model):
    """Log-probabilities of an answer: two contents give other ones even where they draw the same."""
    return complete(server, model, logprobs=0).choices[0].logprobs.token_logprobs


def admin(server, path, **body):
    """Status and message of a load or unload."""
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(),
                                     {"Content-Type": "application/json", "Authorization": f"Bearer {ADMIN_KEY}"})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_they_are_listed(served):
    models = {model.id: model for model in served.client().models.list().data}
    assert {"base", "soft", "prefix", "austen"} <= set(models)
    assert models["soft"].parent == "base"
    assert models["soft"].rank is None and models["soft"].virtual_tokens == 20
    assert models["austen"].virtual_tokens is None
    assert len({models[name].hash for name in ("soft", "prefix", "austen")}) == 3


def test_every_call_takes_them(served):
    base = marks(served, "base")
    for model in ("soft", "prefix"):
        whole = complete(served, model)
        assert marks(served, model) != base
        assert whole.usage.prompt_tokens == complete(served, "base").usage.prompt_tokens
        streamed = "".join(c.choices[0].text for c in complete(served, model, stream=True))
        assert streamed == whole.choices[0].text
        several = complete(served, model, n=3, seed=5, temperature=1.0)
        again = complete(served, model, n=3, seed=5, temperature=1.0)
        assert [c.text for c in several.choices] == [c.text for c in again.choices]
        assert len({c.text for c in several.choices}) > 1
        echoed = complete(served, model, echo=True, logprobs=2, max_tokens=3)
        assert echoed.choices[0].text.startswith(PROMPT)
        logprobs = echoed.choices[0].logprobs.token_logprobs
        assert logprobs[0] is None and all(value < 0 for value in logprobs[1:])
        assert len(logprobs) == echoed.usage.total_tokens
        chat = served.client().chat.completions.create(model=model, messages=[{"role": "user", "content": "Begin."}],
                                                       max_tokens=5)
        assert chat.usage.completion_tokens <= 5


def test_one_batch_mixes_them(served):
    models = ["base", "soft", "prefix", "austen"]
    alone = [text(served, model) for model in models]

    async def run():
        async with openai.AsyncOpenAI(base_url=served.url + "/v1", api_key="x", max_retries=0, timeout=120) as client:
            return await asyncio.gather(*(client.completions.create(model=model, prompt=PROMPT, max_tokens=12,
                                                                    temperature=0) for model in models * 4))
    assert [reply.choices[0].text for reply in asyncio.run(run())] == alone * 4


# Twenty virtual tokens and a prompt of some more: only the prompt's are told of.
def test_pages_are_shared_and_not_told_of(served):
    for model in ("soft", "prefix"):
        first = complete(served, model, prompt=PROMPT * 4)
        before = served.metric("graft_prefix_hit_tokens_total")
        second = complete(served, model, prompt=PROMPT * 4)
        assert second.choices[0].text == first.choices[0].text
        found = served.metric("graft_prefix_hit_tokens_total") - before
        assert second.usage.prompt_tokens_details.cached_tokens == found - 20
        before = served.metric("graft_prefix_hit_tokens_total")
        other = complete(served, model, prompt="Nothing like it: " + PROMPT)
        assert served.metric("graft_prefix_hit_tokens_total") - before == 16  # a page of virtual tokens
        assert not other.usage.prompt_tokens_details or other.usage.prompt_tokens_details.cached_tokens == 0


def test_the_context_holds_them_too(served):
    client = served.client()
    fits = client.completions.create(model="soft", prompt=[5] * (4096 - 20 - 1), max_tokens=9, temperature=0)
    assert fits.usage.completion_tokens == 1 and fits.choices[0].finish_reason == "length"
    with pytest.raises(openai.BadRequestError, match="puts 20 tokens in front of the prompt, which has 4076"):
        client.completions.create(model="soft", prompt=[5] * 4076, max_tokens=9)
    assert client.completions.create(model="base", prompt=[5] * 4076, max_tokens=9).usage.completion_tokens == 9


def test_loads_replaces_and_unloads(served, adapters):
    (adapters / "again").mkdir()
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        (adapters / "again" / name).write_bytes((adapters / "soft" / name).read_bytes())
    assert admin(served, "/v1/load_lora_adapter", lora_name="mine", lora_path="again")[0] == 200
    first = marks(served, "mine")
    assert first == marks(served, "soft")
    # The same name, other vectors: nothing of the old ones may be found.
    write_soft(adapters / "again", seed=2)
    assert admin(served, "/v1/load_lora_adapter", lora_name="mine", lora_path="again", load_inplace=True)[0] == 200
    assert marks(served, "mine") != first
    assert marks(served, "soft") == first
    assert admin(served, "/v1/unload_lora_adapter", lora_name="mine")[0] == 200
    with pytest.raises(openai.NotFoundError):
        text(served, "mine")


def content_hash(folder):
    """As docs/adapters.md has it."""
    digest = hashlib.sha256()
    for part in ("lora", "prompt"):
        for name in ("adapter_config.json", "adapter_model.safetensors"):
            path = folder / part / name
            data = path.read_bytes() if path.exists() else b""
            digest.update(struct.pack("<Q", len(data)) + data)
    return digest.hexdigest()


def test_a_bundle_is_one_adapter(served, adapters):
    """LoRA on all rows behind virtual tokens: neither alone, and under one hash."""
    folder = adapters / "both"
    write_soft(folder / "prompt")
    shutil.copytree(DEMO / "adapters" / "austen", folder / "lora")
    (folder / "graft.json").write_text(json.dumps({"format": 1, "hash": content_hash(folder), "document": "a book"}))
    status, message = admin(served, "/v1/load_lora_adapter", lora_name="both", lora_path="both")
    assert status == 200, message
    model = {model.id: model for model in served.client().models.list().data}["both"]
    assert model.hash == content_hash(folder) and model.rank == 16 and model.virtual_tokens == 20
    answers = [marks(served, name) for name in ("both", "soft", "austen", "base")]
    assert all(answers[0] != other for other in answers[1:])
    assert marks(served, "both") == answers[0]
    assert complete(served, "both").usage.prompt_tokens == complete(served, "base").usage.prompt_tokens
    write_soft(folder / "prompt", seed=3)
    status, message = admin(served, "/v1/load_lora_adapter", lora_name="both", lora_path="both", load_inplace=True)
    assert status != 200 and "they were changed since it was written" in message
    assert marks(served, "both") == answers[0]
    (folder / "graft.json").write_text(json.dumps({"format": 1}))
    assert admin(served, "/v1/load_lora_adapter", lora_name="both", lora_path="both", load_inplace=True)[0] == 200
    assert marks(served, "both") != answers[0]
    assert admin(served, "/v1/unload_lora_adapter", lora_name="both")[0] == 200


@pytest.mark.parametrize(("write", "words"), [
    (lambda path: write_adapter(path, "PROMPT_TUNING", 4, 64, 1), "another base"),
    (lambda path: write_adapter(path, "PROMPT_TUNING", 4, 64, 1, token_dim=64), "token_dim"),
    (lambda path: write_soft(path, poison=float("nan")), "holds NaN at [1, 1]"),
    (lambda path: write_adapter(path, "PREFIX_TUNING", 4, 256, 1), "take [4, 3072]"),
    (lambda path: write_prefix(path, num_layers=3), "num_layers"),
    (lambda path: write_soft(path, modules_to_save=["lm_head"]), "modules_to_save"),
    (lambda path: write_adapter(path, "MULTITASK_PROMPT_TUNING", 4, 256, 1), "is not supported"),
])
def test_what_does_not_fit_is_refused(served, adapters, write, words):
    write(adapters / "bad")
    status, message = admin(served, "/v1/load_lora_adapter", lora_name="bad", lora_path="bad")
    assert status in (400, 501) and words in json.loads(message)["error"]["message"], message
    assert text(served, "soft")


def test_a_restart_serves_them_again(adapters, tmp_path):
    args = ("--dtype", "fp32", "--admin-key", ADMIN_KEY, "--registry", tmp_path / "registry.db", "--adapters-root",
            DEMO / "adapters")
    with Server(*args, adapters=adapters) as server:
        assert admin(server, "/v1/load_lora_adapter", lora_name="kept", lora_path="prefix")[0] == 200
        first = marks(server, "kept")
    with Server(*args, adapters=adapters) as server:
        listed = {model.id: model for model in server.client().models.list()}
        assert listed["kept"].virtual_tokens == 20 and listed["kept"].rank is None, "before anybody reads it"
        assert marks(server, "kept") == first


# More than fit beside each other take turns, and are preempted and computed again.
def test_a_small_pool_gives_the_same_answers(adapters, served):
    models = ["soft", "prefix", "base"]
    want = {model: text(served, model, max_tokens=200) for model in models}
    args = ("--dtype", "fp32", "--adapters-root", DEMO / "adapters", "--pool-gib", "0.0045", "--context-tokens-max", "256",
            "--adapters-max", "1", "--tune", "turn-ms=2", "--tune", "prefill-chunk-max=7")
    with Server(*args, adapters=adapters) as server:
        async def run():
            async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="x", max_retries=0,
                                          timeout=300) as client:
                return await asyncio.gather(*(client.completions.create(model=model, prompt=PROMPT, max_tokens=200,
                                                                        temperature=0) for model in models * 5))
        # The order in which they come decides about preemptions: a round may have none.
        for _ in range(8):
            for model, reply in zip(models * 5, asyncio.run(run())):
                assert reply.choices[0].text == want[model], model
            if server.metric("graft_preemptions_total") > 0:
                return
        pytest.fail("no request was preempted")
