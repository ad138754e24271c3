"""Several adapters in one request: the weighted sum that PEFT's add_weighted_adapter (combination_type "cat") would write as
one folder, which the test writes itself."""

import json
import struct

import openai
import pytest

from conftest import DEMO, LONG_TESTS, ROOT, Server
from test_features import PROMPT, alike, complete, flags, golden_server, table

SUM = [{"name": "austen", "weight": 0.7}, {"name": "carroll", "weight": -0.4}]
HALF = [{"name": "austen", "weight": 0.5}]


def read_adapter(folder):
    """Config and fp32 matrices, {name: (rows, columns, [values])}."""
    config = json.loads((folder / "adapter_config.json").read_text())
    data = (folder / "adapter_model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = data[8 + size + begin:8 + size + end]
        if entry["dtype"] == "BF16":
            raw = b"".join(b"\0\0" + raw[i:i + 2] for i in range(0, len(raw), 2))
        else:
            assert entry["dtype"] == "F32", entry
        tensors[name] = (*entry["shape"], struct.unpack(f"<{len(raw) // 4}f", raw))
    return config, tensors


def write_adapter(folder, config, tensors):
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text(json.dumps(config))
    header, body = {}, b""
    for name, (rows, columns, values) in tensors.items():
        raw = struct.pack(f"<{rows * columns}f", *values)
        header[name] = {"dtype": "F32", "shape": [rows, columns], "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(header).encode()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)


def write_sum(folder, parts):
    """A folder of the sum of (adapter's folder, weight), as PEFT's "cat" makes it: rows of A times weight and scale, one
    after the other, and columns of B beside each other; its own scale is 1. A projection that a part leaves alone has
    zeros of that part's rank."""
    read = [(*read_adapter(path), weight) for path, weight in parts]
    assert not any(config.get("rank_pattern") or config.get("use_rslora") for config, _, _ in read)
    names = sorted({name for _, tensors, _ in read for name in tensors})
    summed = {}
    for name in names:
        is_a = "lora_A" in name
        rows, columns, _ = next(tensors[name] for _, tensors, _ in read if name in tensors)
        pieces = []  # of each part: its rows of A, or the transposed columns of B, as rows
        for config, tensors, weight in read:
            rank, scale = config["r"], weight * config["lora_alpha"] / config["r"]
            values = tensors[name][2] if name in tensors else (0.0,) * (rank * (columns if is_a else rows))
            if is_a:
                pieces += [value * scale for value in values]
            else:
                pieces += [values[i * rank + j] for j in range(rank) for i in range(rows)]
        ranks = sum(config["r"] for config, _, _ in read)
        if is_a:
            summed[name] = (ranks, columns, pieces)
        else:
            summed[name] = (rows, ranks, [pieces[j * rows + i] for i in range(rows) for j in range(ranks)])
    targets = sorted({module for config, _, _ in read for module in config["target_modules"]})
    write_adapter(folder, read[0][0] | {"r": ranks, "lora_alpha": ranks, "target_modules": targets}, summed)


def parts_of(adapters):
    return [(DEMO / "adapters" / part["name"], part["weight"]) for part in adapters]


def ask(server, adapters=None, model="base", **kwargs):
    extra = {"adapters": adapters} if adapters else {}
    reply = complete(server, model, logprobs=0, max_tokens=16, extra_body=extra, **kwargs)
    return [reply.choices[0].text, reply.choices[0].logprobs.token_logprobs]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What folders of the sums answer, and their texts are no part's."""
    folder = tmp_path_factory.mktemp("sums")
    write_sum(folder / "two-lora", parts_of(SUM))
    write_sum(folder / "one-by-a-weight", parts_of(HALF))
    with Server("--dtype", "fp32", adapters=folder) as server:
        return {"two LoRA": ask(server, model="two-lora"), "one by a weight": ask(server, model="one-by-a-weight")}


ADAPTERS = {"two LoRA": SUM, "one by a weight": HALF}


def columns():
    settings = list(dict.fromkeys(column for _, column in table("Several adapters in one request")))
    return settings if LONG_TESTS else settings[::3]


@pytest.mark.parametrize("setting", columns())
def test_a_sum_is_pefts(setting, expected):
    cells = {row: cell for (row, column), cell in table("Several adapters in one request").items() if column == setting}
    assert set(cells) == set(ADAPTERS)
    with Server("--dtype", "fp32", *(flags(setting) if setting != "defaults" else ())) as server:
        parts = [ask(server, model=name) for name in ("base", "austen", "carroll")]
        for row, cell in cells.items():
            if cell.startswith("refused"):
                with pytest.raises(openai.APIStatusError) as failure:
                    ask(server, ADAPTERS[row])
                assert cell.removeprefix("refused:").strip() in str(failure.value)
                continue
            assert cell == "works"
            for _ in range(2):  # the second time from the prefix cache
                assert alike(ask(server, ADAPTERS[row]), expected[row]), row
            assert not any(alike(expected[row], part) for part in parts), "it is nobody's answer"
        assert [ask(server, model=name) for name in ("base", "austen", "carroll")] == parts


def test_weights_are_part_of_the_prefix(expected):
    with Server("--dtype", "fp32") as server:
        prompt = PROMPT * 8
        def cached(adapters):
            reply = complete(server, "base", prompt=prompt, extra_body={"adapters": adapters})
            return reply.usage.prompt_tokens_details.cached_tokens
        assert cached(SUM) == 0 and cached(SUM[::-1]) > 0
        assert cached([SUM[0], SUM[1] | {"weight": 0.4}]) == 0
        assert cached([SUM[0] | {"weight": 1}]) == 0 and cached([SUM[0] | {"weight": 1}, SUM[1] | {"weight": 0}]) > 0
        assert alike(ask(server, SUM), expected["two LoRA"])


def test_every_endpoint_takes_them(expected):
    with Server("--dtype", "fp32") as server:
        client, extra = server.client(), {"adapters": SUM}
        plain, summed = (client.embeddings.create(model="base", input=PROMPT, encoding_format="float", extra_body=body)
                         for body in ({}, extra))
        assert not alike(plain.data[0].embedding, summed.data[0].embedding)
        chat = client.chat.completions.create(model="base", messages=[{"role": "user", "content": "Begin."}], max_tokens=8,
                                              temperature=0, stream=True, extra_body=extra)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chat)
        response = client.responses.create(model="base", input="Begin.", max_output_tokens=8, temperature=0,
                                           extra_body=extra)
        assert response.output_text
        with pytest.raises(openai.NotFoundError) as failure:
            ask(server, [{"name": "austin"}])
        assert failure.value.body["param"] == "adapters[0].name" and "'austen'" in str(failure.value)
        with pytest.raises(openai.BadRequestError) as failure:
            ask(server, SUM, model="austen")
        assert "added to the base model" in str(failure.value)


def test_ranks_that_add_up_to_too_many_are_told(tmp_path):
    server = golden_server(tmp_path, "llama", "fp32")
    _, tensors = read_adapter(ROOT / "tests" / "goldens" / "llama" / "adapter")
    path = "model.layers.0.self_attn.q_proj"
    a, b = (f"base_model.model.{path}.lora_{side}.weight" for side in "AB")
    rank, (own_rank, columns, _), rows = 249, tensors[a], tensors[b][0]
    assert own_rank == 8
    write_adapter(tmp_path / "adapters" / "wide",
                  {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": 1, "target_modules": [path]},
                  {a: (rank, columns, [0.0] * (rank * columns)), b: (rows, rank, [0.0] * (rank * rows))})
    with server:
        with pytest.raises(openai.BadRequestError) as failure:
            complete(server, "base", prompt=[5, 6], extra_body={"adapters": [{"name": "adapter"}, {"name": "wide"}]})
        assert f"add up to 257 in {path}, a sum may have 256" in str(failure.value)
        alone = complete(server, "base", prompt=[5, 6], extra_body={"adapters": [{"name": "wide", "weight": 2}]})
        assert alone.usage.prompt_tokens == 2
