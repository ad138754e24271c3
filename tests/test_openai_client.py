"""The official client against the running server: every documented call, and what goes wrong."""

import asyncio
import math
import os
import signal
import time

import openai
import pytest

from conftest import ADMIN_KEY, DEMO, LONG_TESTS, Server

ADAPTERS = ["austen", "burroughs", "carroll", "doyle", "lovecraft", "montgomery", "wells", "wodehouse"]
CHAT = [{"role": "system", "content": " You are a novelist. "}, {"role": "user", "content": "Begin."}]


def test_models(server):
    models = {model.id: model for model in server.client().models.list().data}
    assert set(models) == {"base", *ADAPTERS}
    assert models["austen"].parent == "base"
    assert models["austen"].rank == 16
    assert models["lovecraft"].rank == 64
    assert len(models["wells"].hash) == 64
    assert server.client().models.retrieve("doyle").id == "doyle"


def test_completion_shapes(server):
    reply = server.client().completions.create(model="austen", prompt=["It is", "She was"], max_tokens=5, n=2, seed=1,
                                               temperature=0.7, logprobs=2, echo=True)
    assert [choice.index for choice in reply.choices] == [0, 1, 2, 3]
    assert reply.choices[0].text.startswith("It is") and reply.choices[3].text.startswith("She was")
    for choice in reply.choices:
        assert choice.finish_reason in ("length", "stop")
        assert len(choice.logprobs.tokens) == len(choice.logprobs.token_logprobs) == len(choice.logprobs.text_offset)
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens


def test_chat(server):
    client = server.client()
    reply = client.chat.completions.create(model="base", messages=CHAT, max_tokens=12, temperature=0, logprobs=True,
                                           top_logprobs=3)
    message = reply.choices[0].message
    assert message.role == "assistant" and message.content
    content = reply.choices[0].logprobs.content
    ended = reply.choices[0].finish_reason == "stop"  # by a token that is counted and not shown
    assert len(content) == reply.usage.completion_tokens - ended
    assert all(len(entry.top_logprobs) == 3 for entry in content)
    assert all(math.isclose(e.logprob, e.top_logprobs[0].logprob, abs_tol=1e-5) for e in content)
    parts = [{"role": "user", "content": [{"type": "text", "text": "Begin."}]}]
    assert client.chat.completions.create(model="base", messages=parts, max_tokens=3).choices[0].message is not None


def test_the_logprobs_of_a_prompt_are_those_of_an_echo(server):
    client = server.client()
    prompt = "It is a truth universally"
    echo = client.completions.create(model="austen", prompt=prompt, max_tokens=2, temperature=0, logprobs=3, echo=True,
                                     extra_body={"ignore_eos": True})
    reply = client.completions.create(model="austen", prompt=prompt, max_tokens=2, temperature=0, logprobs=1,
                                      extra_body={"prompt_logprobs": 3, "ignore_eos": True})
    wanted = echo.choices[0].logprobs
    listed = reply.choices[0].prompt_logprobs
    assert listed[0] is None and len(listed) == len(wanted.tokens) - 2
    for entry, token, logprob in zip(listed[1:], wanted.tokens[1:], wanted.token_logprobs[1:]):
        own = next(iter(entry.values()))
        assert own["decoded_token"] == token and own["logprob"] == logprob and len(entry) in (3, 4)
    assert reply.choices[0].logprobs.token_logprobs == wanted.token_logprobs[-2:]
    assert all(len(top) == 1 for top in reply.choices[0].logprobs.top_logprobs)
    chat = client.chat.completions.create(model="base", messages=CHAT, max_tokens=2, n=2, extra_body={"prompt_logprobs": 0})
    assert len(chat.prompt_logprobs) == chat.usage.prompt_tokens and len(chat.prompt_logprobs[1]) == 1
    with pytest.raises(openai.BadRequestError, match="cannot be streamed"):
        client.completions.create(model="base", prompt="x", stream=True, extra_body={"prompt_logprobs": 0})


def test_token_ids_are_those_of_the_text(server):
    client, wanted = server.client(), {"return_token_ids": True, "ignore_eos": True}

    def decoded(ids):
        return client.with_options(base_url=server.url).post("/detokenize", body={"tokens": ids}, cast_to=object)["prompt"]

    plain = client.completions.create(model="base", prompt=[10, 11], max_tokens=9, temperature=0, extra_body=wanted)
    assert plain.choices[0].prompt_token_ids == [10, 11] and len(plain.choices[0].token_ids) == 9
    assert decoded([10, 11, *plain.choices[0].token_ids]).endswith(plain.choices[0].text)
    stream = [chunk.choices[0] for chunk in client.completions.create(
        model="base", prompt=[10, 11], max_tokens=9, temperature=0, stream=True, extra_body=wanted)]
    assert sum((choice.token_ids for choice in stream), []) == plain.choices[0].token_ids
    assert [choice.prompt_token_ids for choice in stream if hasattr(choice, "prompt_token_ids")] == [[10, 11]]
    chat = client.chat.completions.create(model="base", messages=CHAT, max_tokens=5, n=2, extra_body=wanted)
    assert len(chat.prompt_token_ids) == chat.usage.prompt_tokens
    assert [len(choice.token_ids) for choice in chat.choices] == [5, 5]
    bare = client.chat.completions.create(model="base", messages=CHAT, max_tokens=5)
    assert not hasattr(bare, "prompt_token_ids") and not hasattr(bare.choices[0], "token_ids")


def test_a_prompt_is_cut_on_the_side_that_is_asked_for(server):
    def prompt_of(**fields):
        reply = server.client().completions.create(model="base", prompt=[10, 11, 12, 13], max_tokens=1, echo=True,
                                                   logprobs=0, extra_body={"return_tokens_as_token_ids": True,
                                                                             "ignore_eos": True, **fields})
        return reply.choices[0].logprobs.tokens[:-1]

    assert prompt_of(truncate_prompt_tokens=2) == ["token_id:12", "token_id:13"]
    assert prompt_of(truncate_prompt_tokens=2, truncation_side="right") == ["token_id:10", "token_id:11"]


def test_streams_equal_plain_replies(server):
    client = server.client()
    for model in ["base", *ADAPTERS]:
        plain = client.completions.create(model=model, prompt="Once upon", max_tokens=24, temperature=0)
        chunks = list(client.completions.create(model=model, prompt="Once upon", max_tokens=24, temperature=0,
                                                stream=True, stream_options={"include_usage": True}))
        assert "".join(c.choices[0].text for c in chunks if c.choices) == plain.choices[0].text
        assert chunks[-1].usage.completion_tokens == plain.usage.completion_tokens
        assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == plain.choices[0].finish_reason


def test_chat_stream(server):
    client = server.client()
    plain = client.chat.completions.create(model="wells", messages=CHAT, max_tokens=16, temperature=0)
    chunks = list(client.chat.completions.create(model="wells", messages=CHAT, max_tokens=16, temperature=0,
                                                 stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == plain.choices[0].message.content
    assert chunks[-1].choices[0].finish_reason == plain.choices[0].finish_reason


def test_seed_makes_sampling_repeatable(server):
    client = server.client()

    def draw(seed, **kwargs):
        return client.completions.create(model="base", prompt="The", max_tokens=30, temperature=1.0, seed=seed,
                                         **kwargs).choices[0].text

    assert draw(7) == draw(7)
    assert draw(7) != draw(8)
    assert len({choice.text for choice in client.completions.create(
        model="base", prompt="The", max_tokens=30, temperature=1.0, seed=7, n=4).choices}) == 4
    assert draw(7, extra_body={"top_k": 1}) == client.completions.create(
        model="base", prompt="The", max_tokens=30, temperature=0).choices[0].text


def test_sampling_parameters_act(server):
    client = server.client()

    def greedy(**kwargs):
        return client.completions.create(model="base", prompt="The old man looked at her and said,", max_tokens=40,
                                         temperature=0, **kwargs)

    plain = greedy().choices[0].text
    repeats = greedy(frequency_penalty=2.0).choices[0].text
    assert repeats != plain
    assert greedy(presence_penalty=2.0).choices[0].text != plain
    assert greedy(extra_body={"repetition_penalty": 1.5}).choices[0].text != plain
    first = greedy(logprobs=1).choices[0].logprobs.tokens[0]
    assert first == ' "'
    biased = greedy(logit_bias={"382": -100}, logprobs=1).choices[0].logprobs.tokens[0]
    assert biased != first


def test_stops(server):
    client = server.client()
    plain = client.completions.create(model="base", prompt="The train", max_tokens=40, temperature=0).choices[0].text
    word = plain.split()[5]
    stopped = client.completions.create(model="base", prompt="The train", max_tokens=40, temperature=0, stop=[word])
    assert stopped.choices[0].text == plain[:plain.index(word)]
    assert stopped.choices[0].finish_reason == "stop"
    streamed = list(client.completions.create(model="base", prompt="The train", max_tokens=40, temperature=0,
                                              stop=[word], stream=True))
    assert "".join(c.choices[0].text for c in streamed) == plain[:plain.index(word)]
    kept = client.completions.create(model="base", prompt="The train", max_tokens=40, temperature=0, stop=[word],
                                     extra_body={"include_stop_str_in_output": True})
    assert kept.choices[0].text == plain[:plain.index(word) + len(word)]


def test_a_stop_that_is_a_special_token_stops(server):
    client = server.client()
    chat = {"model": "austen", "messages": CHAT}
    for extra in ({"logit_bias": {"2": 100}}, {"logit_bias": {"3": 100}, "ignore_eos": True}):
        stop = "<|start|>" if "2" in extra["logit_bias"] else "<|end|>"
        ask = {"temperature": 0, "extra_body": {**extra, "stop": [stop]}}
        for stream in (False, True):
            replies = [client.completions.create(model="austen", prompt="It was", max_tokens=8, stream=stream, **ask),
                       client.chat.completions.create(max_tokens=8, stream=stream, **chat, **ask)]
            for reply in replies:
                choices = [c.choices[0] for c in reply if c.choices] if stream else [reply.choices[0]]
                assert choices[-1].finish_reason == "stop"
                text = "".join((c.text if hasattr(c, "text") else (c.delta if stream else c.message).content) or ""
                               for c in choices)
                assert text == ""
                assert stream or reply.usage.completion_tokens == 1
        whole = client.responses.create(model="austen", input="Begin.", max_output_tokens=8, **ask)
        assert whole.status == "completed" and whole.output_text == "" and whole.usage.output_tokens == 1
    # A text and a token behind it: so hot, both are drawn sooner or later.
    [x] = client.with_options(base_url=server.url).post("/tokenize", body={
        "prompt": "x", "add_special_tokens": False}, cast_to=object)["tokens"]
    for seed in range(6):
        reply = client.completions.create(model="austen", prompt="It was", max_tokens=60, temperature=100, seed=seed,
                                          stop="x<|start|>", extra_body={"allowed_token_ids": [x, 2],
                                                                         "return_token_ids": True}).choices[0]
        assert reply.finish_reason == "stop" and reply.token_ids[-2:] == [x, 2]
        assert reply.text == "x" * (reply.token_ids.count(x) - 1)
    kept = client.completions.create(model="austen", prompt="It was", max_tokens=8, stop="<|start|>", temperature=0,
                                     extra_body={"logit_bias": {"2": 100}, "include_stop_str_in_output": True})
    assert kept.choices[0].text == "<|start|>"


def test_what_can_draw_nothing_is_the_requests_mistake(server):
    for extra in ({"allowed_token_ids": [1], "min_tokens": 1}, {"allowed_token_ids": [382], "bad_words": [' "']}):
        with pytest.raises(openai.BadRequestError, match="leaves no token to draw"):
            server.client().completions.create(model="austen", prompt="It was", max_tokens=4, extra_body=extra)
    with pytest.raises(openai.BadRequestError, match="token id 5 twice"):
        server.client().completions.create(model="austen", prompt="It was", logit_bias={"5": 1, "05": 2})


def test_stops_are_not_looked_for_before_min_tokens(server):
    ask = {"model": "austen", "prompt": "It is a truth", "max_tokens": 20, "temperature": 0}
    client = server.client()
    whole = client.completions.create(**ask).choices[0].text
    assert whole.startswith(",") and whole.count(",") == 1
    at_once = client.completions.create(**ask, stop=",").choices[0]
    assert (at_once.text, at_once.finish_reason) == ("", "stop")
    assert client.completions.create(**ask, stop=",", extra_body={"min_tokens": 3}).choices[0].text == whole
    pieces = client.completions.create(**ask, stop=",", stream=True, extra_body={"min_tokens": 3})
    assert "".join(piece.choices[0].text for piece in pieces) == whole


def test_prefix_cache_is_apart_by_salt(server):
    def cached(salt):
        reply = server.client().completions.create(model="base", prompt="A prompt of its own, which nobody sent " * 8,
                                                   max_tokens=1, extra_body={"cache_salt": salt})
        return reply.usage.prompt_tokens_details.cached_tokens

    assert [cached(salt) > 0 for salt in ("a", "a", "b", "b", "a", "")] == [False, True, False, True, True, False]


def test_more_choices_than_the_server_has_in_flight():
    with Server("--requests-max", "3") as server:
        client = server.client()
        with pytest.raises(openai.BadRequestError, match="lower n"):
            client.completions.create(model="base", prompt="It", n=4, max_tokens=2)
        assert len(client.completions.create(model="base", prompt="It", n=3, max_tokens=2).choices) == 3


def test_errors(server):
    client = server.client()
    with pytest.raises(openai.NotFoundError) as error:
        client.completions.create(model="austin", prompt="x")
    assert "austen" in str(error.value) and error.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="temperature"):
        client.completions.create(model="base", prompt="x", temperature=-1)
    with pytest.raises(openai.BadRequestError, match="frobnicate"):
        client.completions.create(model="base", prompt="x", extra_body={"frobnicate": 1})
    with pytest.raises(openai.BadRequestError, match="4096"):
        client.completions.create(model="base", prompt=[5] * 5000)
    with pytest.raises(openai.BadRequestError, match="logprobs"):
        client.completions.create(model="base", prompt="x", logprobs=99)
    with pytest.raises(openai.BadRequestError, match="messages"):
        client.chat.completions.create(model="base", messages=[])
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model="base", prompt=[-1])
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model="base", prompt=[8192])
    assert server.alive()


def test_cancel_frees_the_engine(server):
    client = server.client()
    before = server.metric("graft_requests_running")
    stream = client.completions.create(model="base", prompt="Go", max_tokens=900, temperature=0, stream=True,
                                       extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    deadline = time.monotonic() + 60
    while server.metric("graft_requests_running") > before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert server.metric("graft_requests_running") == before


def test_many_streams_equal_their_single_answers(server):
    """200 of them, or 45, five for each model."""
    prompts = [f"{start} number {i} said that" for i, start in enumerate(["The man", "A girl", "My friend", "The ship",
                                                                        "Our house"] * 5)]
    cases = [(["base", *ADAPTERS][i % 9], prompts[i % len(prompts)]) for i in range(200 if LONG_TESTS else 45)]

    async def one(client, model, prompt):
        parts = []
        async for chunk in await client.completions.create(model=model, prompt=prompt, max_tokens=20, temperature=0,
                                                           stream=True):
            parts.append(chunk.choices[0].text)
        return "".join(parts)

    async def run():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="x", max_retries=0, timeout=300) as client:
            together = await asyncio.gather(*(one(client, *case) for case in cases))
            alone = {case: await one(client, *case) for case in set(cases)}
        return together, alone

    together, alone = asyncio.run(run())
    for case, text in zip(cases, together, strict=True):
        assert text == alone[case], case


def test_load_and_unload(server):
    admin = server.client(ADMIN_KEY)
    admin.post("/load_lora_adapter", body={"lora_name": "jane", "lora_path": "austen"}, cast_to=object)
    client = server.client()
    assert "jane" in {model.id for model in client.models.list().data}
    ours = client.completions.create(model="jane", prompt="It is", max_tokens=10, temperature=0).choices[0].text
    theirs = client.completions.create(model="austen", prompt="It is", max_tokens=10, temperature=0).choices[0].text
    assert ours == theirs
    admin.post("/unload_lora_adapter", body={"lora_name": "jane"}, cast_to=object)
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="jane", prompt="It is")
    for path in ["../base", "/etc", str(DEMO / "base"), "none", "."]:
        with pytest.raises(openai.APIStatusError) as refused:
            admin.post("/load_lora_adapter", body={"lora_name": "evil", "lora_path": path}, cast_to=object)
        assert str(DEMO / "adapters") not in refused.value.message
    with pytest.raises((openai.AuthenticationError, openai.PermissionDeniedError)):
        client.post("/load_lora_adapter", body={"lora_name": "jane", "lora_path": "austen"}, cast_to=object)
    assert server.alive()


def test_unload_in_flight_finishes_on_the_old_content(server):
    admin, client = server.client(ADMIN_KEY), server.client()
    admin.post("/load_lora_adapter", body={"lora_name": "brief", "lora_path": "carroll"}, cast_to=object)
    plain = client.completions.create(model="carroll", prompt="Alice", max_tokens=200, temperature=0,
                                      extra_body={"ignore_eos": True}).choices[0].text
    stream = client.completions.create(model="brief", prompt="Alice", max_tokens=200, temperature=0, stream=True,
                                       extra_body={"ignore_eos": True})
    first = next(iter(stream)).choices[0].text
    admin.post("/unload_lora_adapter", body={"lora_name": "brief"}, cast_to=object)
    assert first + "".join(chunk.choices[0].text for chunk in stream) == plain


def test_registry_survives_a_restart(tmp_path):
    keys = tmp_path / "keys.json"
    keys.write_text("""[{"key": "ops-key", "tenant": "ops", "adapters": ["*"], "admin": true},
                        {"key": "alice-key", "tenant": "alice", "adapters": ["*"]}]""")
    args = ["--api-keys", keys, "--registry", tmp_path / "registry.db"]
    with Server(*args) as server:
        server.client("ops-key").post("/load_lora_adapter", body={"lora_name": "jane", "lora_path": "austen"},
                                      cast_to=object)
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
    with Server(*args) as server:
        tenants = {model.id: model.tenant for model in server.client("ops-key").models.list().data if model.parent}
        assert tenants["jane"] == "ops" and tenants["austen"] is None
        assert not hasattr(server.client("alice-key").models.retrieve("jane"), "tenant")


def test_keys_tenants_and_limits(tmp_path):
    keys = tmp_path / "keys.json"
    keys.write_text("""[
      {"key": "alice-key", "tenant": "alice", "adapters": ["austen", "base"]},
      {"key": "bob-key", "tenant": "bob", "adapters": ["*"], "requests_per_minute": 2}
    ]""")
    with Server("--api-keys", keys) as server:
        with pytest.raises(openai.AuthenticationError):
            server.client("wrong").models.list()
        alice, bob = server.client("alice-key"), server.client("bob-key")
        assert {model.id for model in alice.models.list().data} == {"austen", "base"}
        alice.completions.create(model="austen", prompt="x", max_tokens=1)
        with pytest.raises((openai.PermissionDeniedError, openai.NotFoundError)):
            alice.completions.create(model="doyle", prompt="x", max_tokens=1)
        with pytest.raises(openai.RateLimitError):
            for _ in range(4):
                bob.completions.create(model="doyle", prompt="x", max_tokens=1)


def test_drain_finishes_streams_on_sigterm():
    with Server() as server:
        stream = server.client().completions.create(model="base", prompt="Go", max_tokens=300, temperature=0,
                                                    stream=True, extra_body={"ignore_eos": True})
        chunks = iter(stream)
        next(chunks)
        server.process.send_signal(signal.SIGTERM)
        rest = list(chunks)
        assert rest[-1].choices[0].finish_reason == "length"
        assert server.process.wait(60) == 0
