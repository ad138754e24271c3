"""Bases whose weights are codes (docs/weights.md, and the table of docs/features.md cell by cell): a server of one
answers, base and adapters in one batch, with the bits of a server of the same model in plain numbers."""

import asyncio
import json
import random
import re
import shutil
import struct
import subprocess

import openai
import pytest

from conftest import LONG_TESTS, ROOT, Server, binary, letter_tokenizer
from quantised_twin import write_file, write_twin
from test_features import assert_refused, flags, table

FOLDERS = ROOT / "tests" / "goldens" / "quantised"
CELLS = table("Quantised bases")
MODULES = ("self_attn.q_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.down_proj")


def floats(numbers):
    return struct.pack(f"<{len(numbers)}f", *numbers)


def write_adapter(folder, config, base_name, seed):
    """LoRA of rank 4, trained, by its words, on a base of that name."""
    drawn = random.Random(seed)
    hidden, mlp, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    sizes = {"self_attn.q_proj": (hidden, q), "self_attn.v_proj": (hidden, kv), "self_attn.o_proj": (q, hidden),
             "mlp.gate_proj": (hidden, mlp), "mlp.down_proj": (mlp, hidden)}
    tensors = {}
    for module in MODULES:
        inputs, outputs = sizes[module]
        name = f"base_model.model.model.layers.0.{module}"
        for side, shape in (("A", (4, inputs)), ("B", (outputs, 4))):
            numbers = [drawn.uniform(-0.1, 0.1) for _ in range(shape[0] * shape[1])]
            tensors[f"{name}.lora_{side}.weight"] = "F32", shape, floats(numbers)
    folder.mkdir(parents=True)
    write_file(folder / "adapter_model.safetensors", tensors)
    (folder / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": base_name, "r": 4, "lora_alpha": 8,
        "lora_dropout": 0.0, "bias": "none", "target_modules": [module.split(".")[1] for module in MODULES]}))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders that can be served: of a quantised golden itself, its twin, and adapters for both."""
    made = {}

    def folders(name):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            shutil.copytree(FOLDERS / name, folder / "codes")
            write_twin(FOLDERS / name, folder / "numbers")
            config = json.loads((folder / "codes" / "config.json").read_text())
            for kind in ("codes", "numbers"):
                tokenizer = json.dumps(letter_tokenizer(config["vocab_size"]))
                (folder / kind / "tokenizer.json").write_text(tokenizer)
            # Unsloth's adapters name its base of four bits, others the one in 16.
            write_adapter(folder / "adapters" / "on-4bit", config, "unsloth/tiny-bnb-4bit", 1)
            write_adapter(folder / "adapters" / "on-16bit", config, "meta-llama/tiny", 2)
            made[name] = folder
        return made[name]
    return folders


def start(folder, kind, *args):
    return Server("--model-name", "base", *args, model=folder / kind, adapters=folder / "adapters")


def answers(server):
    """Tokens and log-probabilities, drawn and of prompts, of all models in one batch."""
    async def run():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="x", max_retries=0, timeout=120) as client:
            async def one(model, prompt):
                reply = await client.completions.create(
                    model=model, prompt=prompt, max_tokens=6, temperature=0, echo=True, logprobs=3,
                    extra_body={"ignore_eos": True, "return_tokens_as_token_ids": True})
                found = reply.choices[0].logprobs
                return found.tokens, found.token_logprobs, found.top_logprobs
            prompts = ([5, 17, 42, 8, 33, 21, 60, 2], [7, 7, 9])
            return await asyncio.gather(*(one(model, prompt) for prompt in prompts
                                          for model in ("base", "on-4bit", "on-16bit", "base")))
    return asyncio.run(run())


def chosen(column):
    """Not all formats with all settings, but where every test is asked for."""
    few = {"nf4", "gptq4_desc_act"}
    return [row for row, other in CELLS if other == column and (LONG_TESTS or column == "one process" or row in few)]


@pytest.mark.parametrize(("row", "column"), [(row, column) for column in dict.fromkeys(column for _, column in CELLS)
                                             if column != "`graft adapters merge`" for row in chosen(column)])
def test_a_base_of_codes_answers_as_its_twin(row, column, models):
    cell, folder = CELLS[row, column], models(row)
    args = [] if column == "one process" else flags(column)
    if cell != "works":
        assert_refused(cell, *args, model=folder / "codes", adapters=folder / "adapters")
        return
    with start(folder, "codes", "--weights", "plain", *args) as server:
        found = answers(server)
        log = server.log()
    with start(folder, "numbers", *args) as server:
        expected = answers(server)
    assert found == expected
    assert found[0] != found[1] != found[2], "adapters change answers"
    said = re.search(r"the base is (.*), \S+ \w+ in its files; its weights become (bf16|fp32) while they are read, "
                     r"\S+ \w+ in memory", log)
    assert said, log


@pytest.mark.parametrize("row", ["nf4"])
def test_codes_are_not_merged_into(row, models):
    folder = models(row)
    assert CELLS[row, "`graft adapters merge`"].startswith("refused:")
    done = subprocess.run([binary(), "adapters", "merge", "--model", str(folder / "codes"), "--adapters",
                           str(folder / "adapters"), "--adapter", "on-4bit", "--out", str(folder / "merged")],
                          text=True, capture_output=True)
    words = CELLS[row, "`graft adapters merge`"].removeprefix("refused:").strip()
    assert done.returncode != 0 and words in done.stderr, done.stderr
    assert not (folder / "merged").exists()


@pytest.mark.parametrize("name", sorted(path.stem for path in (FOLDERS / "refused").iterdir()))
def test_other_formats_are_refused(name, models, tmp_path):
    """Their config.json beside any weights: nothing of these is read."""
    folder = models("nf4")
    shutil.copytree(folder / "codes", tmp_path / "model")
    shutil.copy(FOLDERS / "refused" / f"{name}.json", tmp_path / "model" / "config.json")
    word = "quantization_config" if name != "mxfp4" else "GptOssForCausalLM"
    assert_refused(f"refused: {word}", model=tmp_path / "model", adapters=folder / "adapters")


def test_a_damaged_weight_is_named(models, tmp_path):
    folder = models("awq")
    shutil.copytree(folder / "codes", tmp_path / "model")
    path = tmp_path / "model" / "model.safetensors"
    data = bytearray(path.read_bytes())
    size = struct.unpack("<Q", data[:8])[0]
    begin = json.loads(data[8:8 + size])["model.layers.0.mlp.up_proj.scales"]["data_offsets"][0] + 8 + size
    data[begin:begin + 2] = b"\x00\x7e"  # NaN
    path.write_bytes(data)
    assert_refused("refused: model.layers.0.mlp.up_proj.scales holds NaN or Inf", model=tmp_path / "model",
                   adapters=folder / "adapters")
