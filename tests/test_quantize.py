"""Weights as codes: `--weights` makes them while a model is read, `graft quantize` writes them, and both answer with
the same bits; what four and eight bits lose of the demo's answers; what is refused."""

import json
import math
import os
import re
import shutil
import subprocess

import openai
import pytest

from conftest import ROOT, Server, binary, copy_golden_model, letter_tokenizer
from local_server import free_port, wait_ready
from quantised_twin import write_twin
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
        log = server.log()
        assert "stay codes where kernels take them" in log
        kind = "NF4 of bitsandbytes" if codes == "nf4" else f"{codes} of compressed-tensors"
        assert re.search(rf"base on .* in {kind}: \d+ MiB of weights", log), log
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


@pytest.mark.parametrize("codes", ["int8", "int4", "nf4"])
def test_a_written_folder_has_the_numbers_that_libraries_read(codes, tmp_path):
    """Their hashes are in written.json; the twin's numbers are checked by them, and the server's by the twin's."""
    copy_golden_model("llama", tmp_path / "llama")
    done = quantize(tmp_path / "llama", codes, tmp_path / "codes")
    assert done.returncode == 0, done.stderr
    written = json.loads((FOLDERS / "written.json").read_text())
    write_twin(tmp_path / "codes", tmp_path / "twin", written[f"llama {codes}"]["numbers"])
    (tmp_path / "adapters").mkdir()
    found = {}
    for kind in ("codes", "twin"):
        with Server("--model-name", "base", "--weights", "plain", model=tmp_path / kind,
                    adapters=tmp_path / "adapters") as server:
            reply = server.client().completions.create(
                model="base", prompt=[5, 17, 42, 8], max_tokens=8, temperature=0, echo=True, logprobs=3,
                extra_body={"ignore_eos": True, "return_tokens_as_token_ids": True})
            found[kind] = (reply.choices[0].logprobs.tokens, reply.choices[0].logprobs.token_logprobs)
    assert found["codes"] == found["twin"]


def test_a_model_that_sees_is_written_too(tmp_path):
    """The text's weights become codes, and the towers stay as they are."""
    copy_golden_model("llava", tmp_path / "llava")
    done = quantize(tmp_path / "llava", "int8", tmp_path / "codes")
    assert done.returncode == 0 and "14 weights as int8" in done.stdout, done.stdout + done.stderr
    (tmp_path / "adapters").mkdir()
    found = []
    for args in (["--weights", "int8", "--dtype", "bf16"], []):
        with Server("--model-name", "base", "--text-only", *args, model=tmp_path / ("llava" if args else "codes"),
                    adapters=tmp_path / "adapters") as server:
            reply = server.client().completions.create(model="base", prompt=[5, 7, 2, 8], max_tokens=8, temperature=0,
                                                       logprobs=1, extra_body={"ignore_eos": True})
            found.append(reply.choices[0].logprobs.token_logprobs)
    assert math.isclose(found[0][0], found[1][0], abs_tol=0.02)  # groups of 32 here, of all inputs there


@pytest.mark.skipif("GRAFT_LIBRARIES_PYTHON" not in os.environ,
                    reason="GRAFT_LIBRARIES_PYTHON names no Python that has bitsandbytes and compressed-tensors")
def test_the_libraries_themselves_read_what_is_written():
    done = subprocess.run([os.environ["GRAFT_LIBRARIES_PYTHON"], str(FOLDERS / "read_written.py"), "--graft", binary(),
                           "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_make_serve_takes_weights():
    """The command at the end of `make serve`, by the program that is tested."""
    port = free_port()
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    made = subprocess.run(["make", "-n", "serve", "WEIGHTS=int4", f"PORT={port}"], cwd=ROOT, capture_output=True,
                          text=True, check=True, env=env)
    command = made.stdout.splitlines()[-1].split()
    assert command[:3] == ["exec", "build/release/graft", "serve"]
    process = subprocess.Popen([binary(), *command[2:]], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        wait_ready(f"http://127.0.0.1:{port}", process, 120)
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0, timeout=120)
        for model in ("base", "austen"):
            reply = client.completions.create(model=model, prompt=PROMPTS[0], max_tokens=8, temperature=0)
            assert len(reply.choices[0].text.split()) > 1, model
    finally:
        process.terminate()
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 0 and "int4 in groups of 128" in said, said


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
    narrow = quantize(ROOT / "tests" / "goldens" / "llava", "nf4", tmp_path / "out")
    assert narrow.returncode in (1, 2) and "which groups of 64 do not divide" in narrow.stderr
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


def learn(tmp_path, *args):
    text = tmp_path / "page.md"
    text.write_text("The lighthouse was built in 1834.\n")
    return subprocess.run([binary(), "learn", str(text), "--adapters", str(tmp_path / "out"), *args],
                          capture_output=True, text=True, timeout=300)


def test_learning_wants_numbers(tmp_path):
    done = learn(tmp_path, "--model", str(BASE), "--weights", "int4")
    assert done.returncode == 1 and "weights that are codes: add --weights plain" in done.stderr


def test_learning_takes_the_numbers_of_a_quantised_base(tmp_path):
    assert quantize(BASE, "nf4", tmp_path / "nf4").returncode == 0
    done = learn(tmp_path, "--model", str(tmp_path / "nf4"), "--name", "page", "--learner", "next-token", "--prompts",
                 "plain", "--rank", "4", "--window-tokens", "24", "--passes", "1")
    assert done.returncode == 0, done.stderr
    assert "is NF4 of bitsandbytes: its weights become numbers" in done.stderr
    with Server("--model-name", "base", "--learn-dir", tmp_path / "learn", "--learn-share", "0.5", model=tmp_path / "nf4",
                adapters=tmp_path / "out") as server:
        assert server.says("jobs are refused: training does not cover weights that are codes: add --weights plain")
        reply = server.client().completions.create(model="page", prompt=PROMPTS[0], max_tokens=4, temperature=0)
        assert reply.choices[0].text


def test_verify_says_what_base_an_adapter_of_codes_meets(tmp_path):
    """One that was trained on a base of bitsandbytes is served on that base and on its original alike."""
    config = json.loads((FOLDERS / "nf4" / "config.json").read_text())
    write_adapter(tmp_path / "adapters" / "on-4bit", config, "unsloth/tiny-bnb-4bit", 1)
    write_adapter(tmp_path / "adapters" / "on-16bit", config, "meta-llama/tiny", 2)
    shutil.copytree(FOLDERS / "nf4", tmp_path / "codes")
    write_twin(FOLDERS / "nf4", tmp_path / "original")
    for base, weights in (("codes", "NF4 of bitsandbytes"), ("original", "bf16")):
        (tmp_path / base / "tokenizer.json").write_text(json.dumps(letter_tokenizer(config["vocab_size"])))
        done = subprocess.run([binary(), "adapters", "verify", "--model", str(tmp_path / base), "--adapters",
                               str(tmp_path / "adapters")], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout
        told, plain = sorted(done.stdout.splitlines(), key=len, reverse=True)
        assert told.endswith(f"on-4bit: ok, self-test passed; trained on unsloth/tiny-bnb-4bit, served on weights in "
                             f"{weights}")
        assert plain.endswith("on-16bit: ok, self-test passed")
        with Server("--model-name", "base", model=tmp_path / base, adapters=tmp_path / "adapters") as server:
            replies = [server.client().completions.create(model=model, prompt=[5, 17, 42], max_tokens=6, temperature=0,
                                                          extra_body={"ignore_eos": True}).choices[0].text
                       for model in ("base", "on-4bit", "on-16bit")]
            assert replies[0] != replies[1]
