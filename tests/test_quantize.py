"""Weights as codes: `--weights` makes them while a model is read, `graft quantize` writes them, and both answer with
the same bits; what four and eight bits lose of the demo's answers; what is refused."""

import json
import math
import shutil
import subprocess

import pytest

from conftest import ROOT, Server, binary, letter_tokenizer
from test_quantised import FOLDERS, write_adapter

BASE = ROOT / "demo" / "base"
ADAPTERS = ROOT / "demo" / "adapters"
PROMPTS = ("The morning was", "It was the first time that", "He looked at her and")


def quantize(folder, codes, out, *args):
    return subprocess.run([binary(), "quantize", str(folder), "--to", codes, "--out", str(out), *args],
                          capture_output=True, text=True, timeout=300)


def answers(server):
    """Tokens with their log-probabilities, of the base and two adapters."""
    found = {}
    for model in ("base", "austen", "doyle"):
        for prompt in PROMPTS:
            reply = server.client().completions.create(model=model, prompt=prompt, max_tokens=12, temperature=0,
                                                       logprobs=1)
            found[model, prompt] = (reply.choices[0].text, reply.choices[0].logprobs.token_logprobs)
    return found


@pytest.fixture(scope="module")
def plain():
    with Server("--model-name", "base", model=BASE, adapters=ADAPTERS) as server:
        yield answers(server)


@pytest.mark.parametrize("codes", ["int8", "int4", "nf4"])
def test_the_written_folder_answers_as_the_codes_made_at_start(codes, tmp_path, plain):
    done = quantize(BASE, codes, tmp_path / "written")
    assert done.returncode == 0, done.stderr
    assert "84 weights as" in done.stdout and "MiB became" in done.stdout
    with Server("--model-name", "base", "--weights", codes, model=BASE, adapters=ADAPTERS) as server:
        made = answers(server)
        assert ("NF4" if codes == "nf4" else codes) + " in groups of" in server.log()
    with Server("--model-name", "base", model=tmp_path / "written", adapters=ADAPTERS) as server:
        assert answers(server) == made
        assert "stay codes where kernels take them" in server.log()
    # Eight bits change nearly nothing. Four change words, but the first tokens' probabilities are near.
    for key, (text, logprobs) in plain.items():
        first = made[key][1][0]
        assert abs(first - logprobs[0]) < (0.1 if codes == "int8" else 1.0), (key, text)
    if codes == "int8":
        assert sum(made[key][0] == text for key, (text, _) in plain.items()) >= 7


def test_a_quantised_folder_can_be_served_as_numbers(tmp_path):
    """The numbers of the codes in bf16: near to what the codes give."""
    assert quantize(BASE, "int8", tmp_path / "written").returncode == 0
    with Server("--model-name", "base", model=tmp_path / "written", adapters=ADAPTERS) as server:
        codes = answers(server)
    with Server("--model-name", "base", "--weights", "plain", model=tmp_path / "written", adapters=ADAPTERS) as server:
        assert "its weights become bf16" in server.log()
        for key, (_, logprobs) in answers(server).items():
            assert math.isclose(logprobs[0], codes[key][1][0], abs_tol=0.05), key


def test_two_ranks_have_codes_too(tmp_path):
    with Server("--model-name", "base", "--weights", "int4", "--tensor-parallel", "2", model=BASE,
                adapters=ADAPTERS) as server:
        two = answers(server)
    with Server("--model-name", "base", "--weights", "int4", model=BASE, adapters=ADAPTERS) as server:
        for key, (_, logprobs) in answers(server).items():
            assert math.isclose(logprobs[0], two[key][1][0], abs_tol=0.02), key


def test_what_cannot_be_quantised_is_refused(tmp_path):
    again = quantize(FOLDERS / "nf4", "int4", tmp_path / "again")
    assert again.returncode in (1, 2) and "is NF4 of bitsandbytes already" in again.stderr
    taken = quantize(BASE, "int4", BASE)
    assert taken.returncode in (1, 2) and "is there already" in taken.stderr
    missing = quantize(tmp_path / "nothing", "int4", tmp_path / "out")
    assert missing.returncode in (1, 2)
    transposed = quantize(ROOT / "tests" / "goldens" / "gpt2", "int8", tmp_path / "out")
    assert transposed.returncode in (1, 2) and "stored [in, out]" in transposed.stderr
    text_of = quantize(ROOT / "tests" / "goldens" / "llava", "int8", tmp_path / "out")
    assert text_of.returncode in (1, 2) and "is not in the files" in text_of.stderr
    wrong = quantize(BASE, "int3", tmp_path / "out")
    assert wrong.returncode == 2 and "must be int8, int4 or nf4" in wrong.stderr
    config = json.loads((BASE / "config.json").read_text())
    assert "quantization_config" not in config  # the base's folder is as it was


def test_codes_are_not_made_of_codes(tmp_path):
    shutil.copytree(FOLDERS / "nf4", tmp_path / "nf4")
    vocab_size = json.loads((FOLDERS / "nf4" / "config.json").read_text())["vocab_size"]
    (tmp_path / "nf4" / "tokenizer.json").write_text(json.dumps(letter_tokenizer(vocab_size)))
    done = subprocess.run([binary(), "serve", "--model", str(tmp_path / "nf4"), "--weights", "int4", "--port", "0"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode in (1, 2) and "is NF4 of bitsandbytes already" in done.stderr


def test_learning_wants_numbers(tmp_path):
    text = tmp_path / "page.md"
    text.write_text("The lighthouse was built in 1834.\n")
    done = subprocess.run([binary(), "learn", str(text), "--model", str(BASE), "--adapters", str(tmp_path / "out"),
                           "--weights", "int4"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "weights that are codes: add --weights plain" in done.stderr
