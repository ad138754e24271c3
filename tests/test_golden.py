"""The server's tokens and log-probabilities equal those of HF transformers + PEFT (demo/golden.json)."""

import asyncio
import json

import openai
import pytest

from conftest import LONG_TESTS, ROOT, Server


def complete(client, entry, **kwargs):
    return client.completions.create(model=entry["model"], prompt=entry["prompt_ids"], max_tokens=48, temperature=0,
                                     logprobs=20, extra_body={"ignore_eos": True}, **kwargs)


def test_greedy_tokens_and_logprobs(server, golden):
    client = server.client()
    for entry in golden:
        choice = complete(client, entry).choices[0]
        assert choice.text == entry["text"], entry["model"]
        for ours, theirs in zip(choice.logprobs.token_logprobs, entry["greedy_logprobs"], strict=True):
            assert ours == pytest.approx(theirs, abs=1e-3)
        top = sorted(choice.logprobs.top_logprobs[0].values(), reverse=True)
        for ours, theirs in zip(top, entry["next_top_logprobs"]):
            assert ours == pytest.approx(theirs, abs=1e-3)


def test_prompt_logprobs_by_echo(server, golden):
    client = server.client()
    for entry in golden:
        reply = client.completions.create(model=entry["model"], prompt=entry["prompt_ids"], max_tokens=0, echo=True,
                                          logprobs=0)
        ours = reply.choices[0].logprobs.token_logprobs
        assert ours[0] is None
        for mine, theirs in zip(ours[1:], entry["prompt_logprobs"][1:], strict=True):
            assert mine == pytest.approx(theirs, abs=1e-3)


def test_text_prompts_tokenize_as_hf_does(server, golden):
    client = server.client()
    for entry in golden:
        reply = client.completions.create(model=entry["model"], prompt=entry["prompt"], max_tokens=48, temperature=0,
                                          extra_body={"ignore_eos": True})
        assert reply.choices[0].text == entry["text"]
        assert reply.usage.prompt_tokens == len(entry["prompt_ids"])


def test_all_adapters_and_base_interleaved(server, golden):
    """Every golden request at once, at different offsets: prefill and decode of nine models share steps."""

    async def run():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="x", max_retries=0, timeout=120) as client:

            async def one(index, entry):
                await asyncio.sleep(0.003 * index)
                return await complete(client, entry)

            return await asyncio.gather(*(one(i, e) for i, e in enumerate(golden * 3)))

    for entry, reply in zip(golden * 3, asyncio.run(run()), strict=True):
        assert reply.choices[0].text == entry["text"], entry["model"]
        for ours, theirs in zip(reply.choices[0].logprobs.token_logprobs, entry["greedy_logprobs"], strict=True):
            assert ours == pytest.approx(theirs, abs=1e-3)


@pytest.mark.parametrize("isa", ["avx512", "avx2", "portable"])  # lowered to what the machine has
def test_bf16_path(server, golden, isa):
    """bf16 weights: every log-probability within 3e-2 of fp32's up to the first token that differs, and none differs
    while fp32's two likeliest are more than 3e-2 apart."""
    differences = {}
    with Server("--dtype", "bf16", env={"GRAFT_CPU_ISA": isa}) as bf16:
        client = bf16.client()
        for entry in golden if LONG_TESTS else golden[::2]:
            ours = complete(client, entry).choices[0].logprobs
            exact = complete(server.client(), entry).choices[0].logprobs
            first = next((i for i in range(48) if ours.tokens[i] != exact.tokens[i]), 48)
            pairs = [*zip(ours.token_logprobs[:first], entry["greedy_logprobs"]),
                     *zip(sorted(ours.top_logprobs[0].values(), reverse=True), entry["next_top_logprobs"])]
            echo = client.completions.create(model=entry["model"], prompt=entry["prompt_ids"], max_tokens=0, echo=True,
                                             logprobs=0).choices[0].logprobs
            pairs += zip(echo.token_logprobs[1:], entry["prompt_logprobs"][1:], strict=True)
            worst = max(abs(mine - theirs) for mine, theirs in pairs)
            differences[entry["model"]] = max(worst, differences.get(entry["model"], 0.0))
            if first < 48:
                top = sorted(exact.top_logprobs[first].values(), reverse=True)
                assert top[0] - top[1] < 3e-2, entry["model"]
    assert max(differences.values()) < 3e-2, differences


def test_tokenizer_golden(server):
    """Prompt token counts of the golden texts, through the running server."""
    client = server.client()
    for case in json.loads((ROOT / "demo" / "golden_tokenizer.json").read_text()):
        if not case["ids"]:
            continue
        reply = client.completions.create(model="base", prompt=case["text"], max_tokens=1)
        assert reply.usage.prompt_tokens == len(case["ids"]), case["text"]
