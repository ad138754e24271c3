"""Tokens that a step foresees from the prompt (--speculate): the answers of a server without, in one process and over a
cluster, whatever is asked of them."""

import asyncio
import os
import signal

import openai
import pytest

from conftest import Server, binary
from test_cluster import SMALL, Frontend, Runner, answer_of

SENTENCE = "The old man looked at the sea, and the sea looked back at the old man without a word. "
# What the model repeats, and what it does not know.
PROMPTS = [SENTENCE * 3, SENTENCE * 2 + "The old man", "It was a dark night when nobody came to the door, and"]


def asked():
    """Greedy and sampled, base and adapters, and all that ends or bans."""
    for i, prompt in enumerate(PROMPTS * 2):
        yield {"model": ("base", "austen", "lovecraft")[i % 3], "prompt": prompt, "max_tokens": 40,
               "temperature": 0 if i < 3 else 0.7, "seed": 7 + i, "logprobs": 2}
    yield {"model": "base", "prompt": PROMPTS[0], "max_tokens": 32, "n": 4, "temperature": 0.5, "seed": 3}
    yield {"model": "base", "prompt": PROMPTS[0], "max_tokens": 60, "temperature": 0, "stop": [" back at"]}
    yield {"model": "austen", "prompt": PROMPTS[0], "max_tokens": 24, "temperature": 0, "frequency_penalty": 0.5}
    yield {"model": "base", "prompt": PROMPTS[1], "max_tokens": 24, "temperature": 0, "extra_body": {"min_tokens": 24}}
    yield {"model": "base", "prompt": PROMPTS[1], "max_tokens": 24, "temperature": 0,
           "extra_body": {"bad_words": ["sea"], "ignore_eos": True}}


def answers(server):
    return [answer_of(server.client(), request) for request in asked()]


@pytest.fixture(scope="module")
def plain():
    with Server(*SMALL) as server:
        yield server


@pytest.fixture(scope="module")
def expected(plain):
    return answers(plain)


def test_answers_are_those_without(expected):
    with Server(*SMALL, "--speculate", 5) as server:
        assert answers(server) == expected
        drafts = server.metric("vllm:spec_decode_num_draft_tokens_total")
        right = server.metric("vllm:spec_decode_num_accepted_tokens_total")
        assert drafts >= right > 40
        assert server.metric("graft_draft_tokens_total") == drafts
        assert 0 < server.metric("vllm:spec_decode_num_drafts_total") <= drafts
        # All at once, and streamed.
        requests = list(asked())

        async def stream(client, request):
            texts = {}
            async for chunk in await client.completions.create(**request, stream=True):
                for choice in chunk.choices:
                    texts[choice.index] = texts.get(choice.index, "") + choice.text
            return [texts[i] for i in sorted(texts)]

        async def stream_all():
            async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="x", max_retries=0, timeout=120) as client:
                return await asyncio.gather(*(stream(client, request) for request in requests))
        texts = [[choice[0] for choice in answer] for answer in expected]
        assert asyncio.run(stream_all()) == texts
        # A request may do without.
        drafts = server.metric("graft_draft_tokens_total")
        request = requests[0] | {"extra_body": {"draft_tokens_max": 0}}
        assert answer_of(server.client(), request) == expected[0]
        assert server.metric("graft_draft_tokens_total") == drafts
        with pytest.raises(openai.BadRequestError, match="draft_tokens_max"):
            answer_of(server.client(), requests[0] | {"extra_body": {"draft_tokens_max": -1}})


@pytest.mark.skipif(not os.path.exists(os.path.join(os.path.dirname(binary()), "libgraft_cluster.so")),
                    reason="built without gRPC")
def test_answers_are_those_without_over_a_cluster(expected):
    """A runner foresees, another one does not; a stream goes on from the one to the other."""
    runners = [Runner("--speculate", 5, "--request-log", "true").start(), Runner().start()]
    for runner in runners:
        runner.wait_for("runner of")
    frontend = Frontend(runners).start()
    frontend.wait_for("is up", count=2)
    frontend.wait_for("frontend of")
    assert answers(frontend) == expected
    request = next(asked()) | {"max_tokens": 200, "logprobs": None, "extra_body": {"ignore_eos": True}}
    whole = answer_of(frontend.client(), request)[0][0]
    for killed in runners:
        text = ""
        for chunk in frontend.client().completions.create(**request, stream=True):
            if not text:
                killed.stop(signal.SIGKILL)
            text += chunk.choices[0].text
        assert text == whole
        ups = frontend.log().count("is up")
        killed.start()
        frontend.wait_for("is up", count=ups + 1)
    assert [frontend.stop(), *(runner.stop() for runner in runners)] == [0, 0, 0]
