"""Activated LoRA (aLoRA): adapters that act from their invocation in the prompt on, with PEFT's numbers, and the base's
keys and values before that."""

import json
import shutil
import subprocess
import urllib.request

import pytest

from conftest import DEMO, ROOT, Server, binary
from test_features import complete, golden_server, log_softmax, read_golden

PASSAGE = "It was a dark and stormy night, and the rain fell upon the roofs of the old town. " * 6
CALL = "\n\nNow tell it in other words:"


def activate(folder, tokens):
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"alora_invocation_tokens": tokens}))


def test_logits_and_tokens_are_pefts(tmp_path):
    golden = read_golden(ROOT / "tests" / "goldens" / "alora" / "golden.safetensors")
    server = golden_server(tmp_path, "llama", "fp32")
    activate(tmp_path / "adapters" / "adapter", list(golden["invocation"]))
    with server:
        for ids, logits in (("input_ids", "logits"), ("absent_ids", "logits_absent")):
            reply = complete(server, "adapter", prompt=list(golden[ids]), max_tokens=0, echo=True, logprobs=0)
            theirs = [log_softmax(row)[token] for row, token in zip(golden[logits], golden[ids][1:])]
            ours = reply.choices[0].logprobs.token_logprobs[1:]
            assert max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) < 1e-3
        reply = complete(server, "adapter", prompt=list(golden["input_ids"]), max_tokens=len(golden["generated"]), logprobs=0,
                         extra_body={"return_tokens_as_token_ids": True, "ignore_eos": True})
        found = reply.choices[0].logprobs
        assert found.tokens == [f"token_id:{token}" for token in golden["generated"]]
        theirs = [log_softmax(row)[token] for row, token in zip(golden["logits_generated"], golden["generated"])]
        assert max(abs(a - b) for a, b in zip(found.token_logprobs, theirs, strict=True)) < 1e-3


@pytest.fixture(scope="module")
def call(server):
    """The last tokens of CALL."""
    return tokens_of(server, CALL)[-4:]


@pytest.fixture(scope="module")
def folders(tmp_path_factory, call):
    """Two demo adapters as they are, and activated by `call`."""
    folder = tmp_path_factory.mktemp("adapters")
    for name in ("austen", "lovecraft"):
        shutil.copytree(DEMO / "adapters" / name, folder / name)
        shutil.copytree(DEMO / "adapters" / name, folder / f"later-{name}")
        activate(folder / f"later-{name}", call)
    return folder


def tokens_of(server, text):
    request = urllib.request.Request(server.url + "/tokenize", json.dumps({"prompt": text}).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)["tokens"]


@pytest.mark.parametrize("flags", [(), ("--speculate", 4, "--tune", "cold-start=layerwise,read-at-start-gib=0"),
                                   ("--tensor-parallel", 2),
                                   ("--tensor-parallel", 2, "--speculate", 4, "--goal", "throughput")])
def test_the_conversation_before_is_shared(folders, call, flags):
    with Server("--dtype", "fp32", *flags, adapters=folders) as server:
        def ask(model, prompt):
            reply = complete(server, model, prompt=prompt, max_tokens=24)
            return reply.choices[0].text, reply.usage.prompt_tokens_details.cached_tokens
        base, _ = ask("base", PASSAGE)
        answers = {}
        for name in ("later-austen", "later-lovecraft", "austen", "lovecraft"):
            answers[name], cached = ask(name, PASSAGE + CALL)
            assert (cached >= 80) == name.startswith("later"), (name, cached)
        assert len(set(answers.values())) == 4, "they act, and not on everything"
        # Not invoked, it is the base model; from the first token on, the plain adapter.
        assert ask("later-austen", PASSAGE)[0] == base
        tail = server.client().completions.create(model="later-austen", prompt=call, max_tokens=12, temperature=0)
        plain = server.client().completions.create(model="austen", prompt=call, max_tokens=12, temperature=0)
        assert tail.choices[0].text == plain.choices[0].text
        # The base goes on from what an adapter's request left.
        longer = "Something else entirely. " * 12
        ask("later-lovecraft", longer + CALL)
        assert ask("base", longer + CALL)[1] >= 32


def test_an_invocation_that_no_prompt_can_hold_is_refused(tmp_path):
    shutil.copytree(DEMO / "adapters" / "austen", tmp_path / "austen")
    activate(tmp_path / "austen", [5, 8192])
    inspected = subprocess.run([binary(), "adapters", "inspect", str(tmp_path / "austen"), "--model",
                                str(DEMO / "base")], capture_output=True, text=True, check=False)
    assert inspected.returncode != 0
    assert "alora_invocation_tokens holds token 8192, the model's vocabulary ends at 8191" in inspected.stderr
