"""Adapters as other programs save them, and adapters of the head, over HTTP: torch's .bin, mlx-lm's folders, PEFT's copies of
the base, names that the base lacks. Numbers are PEFT's (tests/goldens)."""

import json
import math
import shutil
import struct
import subprocess

import pytest

from conftest import ADMIN_KEY, ROOT, Server, binary, copy_golden_model
from test_adapter_texts import post

GOLDENS = ROOT / "tests" / "goldens"
HEADS = ("with-head", "head-alone")


def read(path, name):
    """A tensor's numbers, row by row."""
    data = path.read_bytes()
    end = 8 + struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8:end])[name]
    begin, stop = (end + offset for offset in entry["data_offsets"])
    kind = {"F32": "f", "I32": "i"}[entry["dtype"]]
    values = struct.unpack(f"<{(stop - begin) // 4}{kind}", data[begin:stop])
    width = entry["shape"][-1]
    return [values[i:i + width] for i in range(0, len(values), width)]


def log_prob(logits, token):
    most = max(logits)
    return logits[token] - most - math.log(sum(math.exp(logit - most) for logit in logits))


def golden_logprobs(path, logits):
    """Of each token of the golden's prompt but the first."""
    tokens = read(path, "input_ids")[0]
    return [log_prob(row, token) for row, token in zip(read(path, logits), tokens[1:])]


def echo(server, model, tokens):
    reply = server.client().completions.create(model=model, prompt=tokens, max_tokens=0, echo=True, logprobs=0)
    return reply.choices[0].logprobs.token_logprobs[1:]


def answer(server, model, tokens, **kwargs):
    choice = server.client().completions.create(model=model, prompt=tokens, max_tokens=16, temperature=0, logprobs=0,
                                                extra_body={"ignore_eos": True}, **kwargs).choices[0]
    return choice.text, choice.logprobs.token_logprobs


def verify(model, *args):
    return subprocess.run([binary(), "adapters", "verify", "--model", str(model), *map(str, args)], capture_output=True,
                          text=True, timeout=120)


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forms") / "llama"
    copy_golden_model("llama", folder)
    return folder


@pytest.fixture(scope="module")
def adapters(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forms") / "adapters"
    folder.mkdir()
    shutil.copytree(GOLDENS / "llama" / "adapter", folder / "peft")
    shutil.copytree(GOLDENS / "forms" / "llama-bin", folder / "bin")
    for name in ("mlx", "mlx-as-peft"):
        shutil.copytree(GOLDENS / "forms" / name, folder / name)
    for kind in HEADS:
        shutil.copytree(GOLDENS / "heads" / f"llama-{kind}" / "adapter", folder / kind)
    skips = shutil.copytree(GOLDENS / "llama" / "adapter", folder / "skips")
    config = json.loads((skips / "adapter_config.json").read_text())
    config["target_modules"].append("query_key_value")
    (skips / "adapter_config.json").write_text(json.dumps(config))
    changed = shutil.copytree(GOLDENS / "heads" / "llama-with-head" / "adapter", folder / "changed")
    data = bytearray((changed / "adapter_model.safetensors").read_bytes())
    end = 8 + struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8:end])["base_model.model.lm_head.base_layer.weight"]
    data[end + entry["data_offsets"][0] + 2] ^= 1
    (changed / "adapter_model.safetensors").write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def served(llama, adapters):
    with Server("--dtype", "fp32", "--admin-key", ADMIN_KEY, model=llama, adapters=adapters) as server:
        yield server


TOKENS = list(read(GOLDENS / "llama" / "golden.safetensors", "input_ids")[0])


@pytest.mark.parametrize("one, other", [("bin", "peft"), ("mlx", "mlx-as-peft"), ("skips", "peft")])
def test_the_same_matrices_give_the_same_answers(served, one, other):
    assert answer(served, one, TOKENS) == answer(served, other, TOKENS)
    assert answer(served, one, TOKENS) != answer(served, "llama", TOKENS)
    assert echo(served, one, TOKENS) == echo(served, other, TOKENS)


def test_models_tell_what_is_left_out(served):
    models = {model.id: model.model_dump() for model in served.client().models.list().data}
    assert models["bin"]["hash"] == models["peft"]["hash"] != models["skips"]["hash"]
    assert '"query_key_value"' in models["skips"]["left_out"]
    assert "lm_head.base_layer.weight" in models["with-head"]["left_out"]
    assert "left_out" not in models["peft"] and "left_out" not in models["mlx"]


@pytest.mark.parametrize("kind", HEADS)
def test_an_adapter_of_the_head_gives_pefts_log_probabilities(served, kind):
    golden = GOLDENS / "heads" / f"llama-{kind}" / "golden.safetensors"
    assert echo(served, kind, TOKENS) == pytest.approx(golden_logprobs(golden, "logits_adapter"), abs=1e-3)
    assert echo(served, "llama", TOKENS) == pytest.approx(golden_logprobs(golden, "logits_base"), abs=1e-3)
    drawn, logprobs = answer(served, kind, TOKENS)
    row = read(golden, "logits_adapter")[-1]
    best = max(range(len(row)), key=row.__getitem__)
    assert drawn.strip()[0] == chr(0x4E00 + best) and logprobs[0] == pytest.approx(log_prob(row, best), abs=1e-3)


@pytest.mark.parametrize("flags", [("--speculate", "4"), ("--tensor-parallel", "2"), ("--tune", "cold-start=layerwise"),
                                   ("--cpu-assist", "thread", "--tune", "cold-start=cpu-assist")], ids=" ".join)
def test_other_ways_to_serve_the_head_change_nothing(served, llama, adapters, flags):
    with Server("--dtype", "fp32", *flags, model=llama, adapters=adapters) as other:
        for model in (*HEADS, "peft", "llama"):
            text, logprobs = answer(other, model, TOKENS * 2)
            wanted, wanted_logprobs = answer(served, model, TOKENS * 2)
            assert text == wanted and logprobs == pytest.approx(wanted_logprobs, abs=1e-4), model
            assert echo(other, model, TOKENS) == pytest.approx(echo(served, model, TOKENS), abs=1e-4), model


def test_what_is_changed_is_refused(served, llama, adapters):
    assert "changed" not in {model.id for model in served.client().models.list().data}
    status, message = post(served, "/v1/load_lora_adapter", lora_name="x", lora_path="changed")
    assert status == 400 and "changed copy of the base's lm_head.weight, first in row 0, column 0" in message
    lines = verify(llama, "--adapters", adapters).stdout
    assert "changed copy" in lines and '"query_key_value"' in lines and "left out" in lines
    assert verify(llama, adapters / "skips").returncode == 0
    strict = verify(llama, "--strict-targets", adapters / "skips")
    assert strict.returncode == 1 and 'names "query_key_value"' in strict.stdout


def test_the_log_tells_it(llama, adapters):
    with Server("--dtype", "fp32", model=llama, adapters=adapters) as server:
        assert server.stop() == 0
        log = server.log()
    assert "query_key_value" in log and "skipped, as PEFT does it" in log
    assert "copies of the base's own, which are left out" in log


@pytest.mark.parametrize("kind", HEADS)
def test_a_tied_head_of_its_own_cap(tmp_path, kind):
    copy_golden_model("gemma2", tmp_path / "gemma2")
    shutil.copytree(GOLDENS / "heads" / f"gemma2-{kind}" / "adapter", tmp_path / "adapters" / kind)
    golden = GOLDENS / "heads" / f"gemma2-{kind}" / "golden.safetensors"
    tokens = list(read(golden, "input_ids")[0])
    with Server("--dtype", "fp32", model=tmp_path / "gemma2", adapters=tmp_path / "adapters") as server:
        assert echo(server, kind, tokens) == pytest.approx(golden_logprobs(golden, "logits_adapter"), abs=1e-3)


def test_a_merged_head_answers_as_the_served_one(served, llama, adapters, tmp_path):
    done = subprocess.run([binary(), "adapters", "merge", "--model", str(llama), "--adapters", str(adapters), "--adapter",
                           "with-head", "--out", str(tmp_path / "out")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    with Server("--dtype", "fp32", "--model-name", "out", model=tmp_path / "out", adapters=adapters) as merged:
        # The golden's weights are bf16, so that the sum is rounded.
        assert echo(merged, "out", TOKENS) == pytest.approx(echo(served, "with-head", TOKENS), abs=0.2)
