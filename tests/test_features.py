"""docs/features.md, cell by cell: what it says works does, with the answers of a server with default settings, and what
it says is refused is refused in those words."""

import asyncio
import functools
import itertools
import json
import math
import shutil
import struct
import urllib.error
import urllib.request

import openai
import pytest

from conftest import ADMIN_KEY, LONG_TESTS, ROOT, Server, copy_golden_model

PAGE = (ROOT / "docs" / "features.md").read_text()
PROMPT = "It was a dark and stormy night, and"
MODELS = ["base", "austen", "lovecraft", "wells"]


def table(heading):
    """The rows of the first table under a heading, as {(row's name, column's name): cell}."""
    lines = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0].splitlines()
    table_lines = itertools.takewhile(lambda line: line.startswith("|"),
                                      itertools.dropwhile(lambda line: not line.startswith("|"), lines))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table_lines]
    columns = rows[0][1:]
    return {(row[0], column): cell for row in rows[2:] for column, cell in zip(columns, row[1:], strict=True)}


def flags(name):
    return name.strip("`").split()


def complete(server, model="austen", **kwargs):
    kwargs = {"prompt": PROMPT, "max_tokens": 12, "temperature": 0, **kwargs}
    return server.client().completions.create(model=model, **kwargs)


def mixed_batch(server):
    async def run():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="x", max_retries=0, timeout=120) as client:
            return await asyncio.gather(*(client.completions.create(model=model, prompt=PROMPT, max_tokens=12,
                                                                    temperature=0) for model in MODELS * 2))
    return [reply.choices[0].text for reply in asyncio.run(run())]


def streaming(server):
    return "".join(chunk.choices[0].text for chunk in complete(server, stream=True))


def logprobs(server):
    found = complete(server, "lovecraft", logprobs=3).choices[0].logprobs
    return found.tokens + found.token_logprobs


def prompt_logprobs(server):
    return complete(server, "wells", max_tokens=0, echo=True, logprobs=0).choices[0].logprobs.token_logprobs


def n_and_seeds(server):
    return [choice.text for choice in complete(server, n=3, temperature=1, seed=7).choices]


def penalties(server):
    return complete(server, presence_penalty=1.5, frequency_penalty=0.5, logit_bias={"5": -100}).choices[0].text


def stop(server):
    whole = complete(server).choices[0].text
    mark = whole[len(whole) // 2:len(whole) // 2 + 2]
    reply = complete(server, stop=[mark]).choices[0]
    assert reply.finish_reason == "stop" and mark not in reply.text
    return reply.text


def prefix_cache(server):
    prompt = PROMPT * 8
    first = complete(server, prompt=prompt)
    second = complete(server, prompt=prompt)
    assert second.usage.prompt_tokens_details.cached_tokens > 0
    assert first.choices[0].text == second.choices[0].text
    return second.choices[0].text


def responses(server):
    client, asked = server.client(), {"model": "austen", "max_output_tokens": 6, "temperature": 0}
    one = client.responses.create(input="Begin.", **asked)
    two = client.responses.create(input="And then?", previous_response_id=one.id, **asked)
    assert client.responses.retrieve(two.id).output_text == two.output_text
    return [one.output_text, two.output_text]


def embeddings(server):
    client = server.client()
    return [client.embeddings.create(model=model, input=[PROMPT, PROMPT * 3], encoding_format="float").data[i].embedding
            for model in ("carroll", "base") for i in (0, 1)]


def forms(server):
    assert FORMS_LIBRARY.exists(), "no cell of the column forms was tried: build what it needs with make grammar"
    schema = {"type": "object", "additionalProperties": False, "required": ["name", "age"], "properties": {
        "name": {"type": "string", "maxLength": 6}, "age": {"type": "integer", "minimum": 0, "maximum": 150}}}
    reply = server.client().chat.completions.create(
        model="austen", messages=[{"role": "user", "content": "Who are you?"}], max_tokens=60, temperature=0,
        response_format={"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}).choices[0]
    assert reply.finish_reason == "stop" and set(json.loads(reply.message.content)) == {"name", "age"}
    return reply.message.content


def ask_admin(server, path, **body):
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(),
                                     {"Content-Type": "application/json", "Authorization": f"Bearer {ADMIN_KEY}"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return reply.status


def load_and_unload(server):
    assert ask_admin(server, "/v1/load_lora_adapter", lora_name="again", lora_path="doyle") == 200
    text = complete(server, "again").choices[0].text
    assert ask_admin(server, "/v1/unload_lora_adapter", lora_name="again") == 200
    with pytest.raises(openai.NotFoundError):
        complete(server, "again")
    return text


REQUESTS = {"mixed batch": mixed_batch, "streaming": streaming, "logprobs": logprobs,
            "prompt logprobs": prompt_logprobs, "n and seeds": n_and_seeds, "penalties": penalties, "stop": stop,
            "prefix cache": prefix_cache, "load and unload": load_and_unload,
            "responses": responses, "embeddings": embeddings, "forms": forms}
FORMS_LIBRARY = ROOT / "build" / "grammar" / "libgraft_grammar.so"


def alike(ours, theirs):
    """Equal, log-probabilities within rounding (LoRA after a product sums in another order)."""
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(alike, ours, theirs))
    if isinstance(ours, float):
        return math.isclose(ours, theirs, abs_tol=1e-3)
    return ours == theirs


@pytest.fixture(scope="module")
def expected(server):
    return functools.cache(lambda request: REQUESTS[request](server))


# Settings that one server can have at once. In `make test` they are tried together: what one of them broke would show,
# at a third of the starts. GRAFT_LONG_TESTS tries each by itself. The goal stands beside several: it decides how prompts
# are cut, as they do.
ROWS_AT_ONCE = [
    ["`--tune page-tokens=5`", "`--tune prefill-chunk-max=3`", "`--otlp-endpoint http://127.0.0.1:9`",
     "`--goal throughput`"],
    ["`--adapters-max 2 --tune turn-ms=20`", "`--tune lora=after`", "`--tune run-ahead=false`"],
    ["`--tune read-at-start-gib=0`", "`--tune cold-start=join-later,read-at-start-gib=0`", "`--speculate 4`",
     "`--goal throughput`"],
    ["`--tensor-parallel 2`", "`--goal throughput`"],
]
COLUMNS_AT_ONCE = [
    ["`--cpu-assist off`", "`--adapters-max 2`", "`--goal throughput`"],
]


def groups(names, at_once):
    """All the names, those that go together in one list."""
    if LONG_TESTS:
        return [[name] for name in names]
    assert set(itertools.chain(*at_once)) <= set(names), "the page has other settings"
    return at_once + [[name] for name in names if not any(name in group for group in at_once)]


def flags_of(names):
    """The flags of several settings, each once, and each key of --tune."""
    found = {}
    for name in names:
        words = flags(name)
        for flag, value in zip(words[::2], words[1::2], strict=True):
            pairs = [one.split("=") for one in value.split(",")] if flag == "--tune" else [("", value)]
            for key, text in pairs:
                assert found.setdefault((flag, key), text) == text, f"{flag} {key} twice in {names}"
    return list(itertools.chain(*((flag, f"{key}={text}" if key else text) for (flag, key), text in found.items())))


def settings():
    return list(dict.fromkeys(setting for setting, _ in table("Settings and requests")))


@pytest.mark.parametrize("group", groups(settings(), ROWS_AT_ONCE), ids=" ".join)
def test_settings_and_requests(group, expected):
    cells = table("Settings and requests")
    with Server("--dtype", "fp32", "--admin-key", ADMIN_KEY, *flags_of(group)) as server:
        for request in REQUESTS:
            for setting in group:
                assert cells[setting, request] == "works", "no cell of this table is refused today; extend this test"
            assert alike(REQUESTS[request](server), expected(request)), request


def assert_refused(cell, *args, **kwargs):
    words = cell.removeprefix("refused:").strip()
    with pytest.raises(RuntimeError) as failure:
        Server(*args, **kwargs).start()
    assert words in str(failure.value)


def works_together():
    """(row, columns) of the cells that work, and that one server can have at once."""
    cells = table("Settings together")
    columns = list(dict.fromkeys(column for _, column in cells))
    found = []
    for row in dict.fromkeys(row for row, _ in cells):
        for group in groups(columns, COLUMNS_AT_ONCE):
            works = [column for column in group if cells[row, column] == "works"]
            if works:
                found.append((row, works))
    return found


TOGETHER = ["--dtype", "fp32", "--tune", "read-at-start-gib=0"]


@pytest.mark.parametrize(("row", "columns"), works_together(), ids=lambda names: "".join(names))
def test_settings_together(row, columns, expected):
    with Server(*TOGETHER, *flags_of([row, *columns])) as server:
        assert mixed_batch(server) == expected("mixed batch")


@pytest.mark.parametrize(("row", "column"), [cell for cell, says in table("Settings together").items()
                                             if says != "works"])
def test_settings_that_do_not_go_together(row, column):
    cell = table("Settings together")[row, column]
    assert cell.startswith("refused:")
    assert_refused(cell, *TOGETHER, *flags(row), *flags(column))


def read_golden(path):
    """input_ids and logits of a golden.safetensors; every tensor there is fp32 or int64."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        kind, width = {"F32": ("f", 4), "I64": ("q", 8), "I32": ("i", 4)}[entry["dtype"]]
        flat = struct.unpack(f"<{(end - begin) // width}{kind}", data[8 + size + begin:8 + size + end])
        columns = entry["shape"][-1]
        tensors[name] = flat if len(entry["shape"]) == 1 else [flat[i:i + columns] for i in range(0, len(flat), columns)]
    return tensors


def log_softmax(row):
    largest = max(row)
    total = math.log(sum(math.exp(value - largest) for value in row)) + largest
    return [value - total for value in row]


def golden_server(tmp_path, name, dtype, *args, folders=None):
    """The golden model as a folder that can be served, its adapter under the name "adapter", or others by name."""
    source = ROOT / "tests" / "goldens" / name
    model, adapters = tmp_path / "model", tmp_path / "adapters"
    copy_golden_model(name, model)
    for adapter, folder in (folders or {"adapter": source / "adapter"}).items():
        shutil.copytree(folder, adapters / adapter)
    return Server("--dtype", dtype, "--model-name", "base", *args, model=model, adapters=adapters)


def worst_difference(server, model, ids, logits):
    """Of the log-probabilities of a prompt's tokens, from those that golden logits give."""
    reply = complete(server, model, prompt=ids, max_tokens=0, echo=True, logprobs=0)
    ours = reply.choices[0].logprobs.token_logprobs
    theirs = [log_softmax(row)[token] for row, token in zip(logits, ids[1:])]
    assert reply.usage.prompt_tokens == len(ids) == len(ours)
    return max(abs(a - b) for a, b in zip(ours[1:], theirs, strict=True))


@pytest.mark.parametrize(("name", "dtype"), table("Models and dtypes"))
def test_models_and_dtypes(name, dtype, tmp_path):
    cell = table("Models and dtypes")[name, dtype]
    server = golden_server(tmp_path, name, dtype, "--text-only")
    if cell.startswith("refused"):
        with pytest.raises(RuntimeError) as failure:
            server.start()
        assert cell.removeprefix("refused:").strip() in str(failure.value)
        return
    assert cell == "works"
    golden = read_golden(ROOT / "tests" / "goldens" / name / "golden.safetensors")
    ids = list(golden["input_ids"])
    with server:
        for model, logits in (("base", golden["logits_base"]), ("adapter", golden["logits_adapter"])):
            worst = worst_difference(server, model, ids, logits)
            assert worst < {"fp32": 1e-3, "bf16": 0.12}[dtype], (model, worst)


def drawn(server, model, ids):
    """Six tokens, each of which the tokenizer of golden servers has as a letter."""
    reply = complete(server, model, prompt=ids, max_tokens=6, extra_body={"ignore_eos": True})
    assert reply.usage.prompt_tokens == len(ids) and reply.usage.completion_tokens == 6
    return [ord(letter) - 0x4E00 for letter in reply.choices[0].text.split()]


PROMPTS = table("Prompts and prefixes")


@pytest.mark.parametrize("setting", dict.fromkeys(setting for _, setting in PROMPTS))
def test_prompts_and_prefixes(setting, tmp_path):
    """All methods' adapters beside each other, and beside rows of the base model."""
    goldens = ROOT / "tests" / "goldens"
    methods = list(dict.fromkeys(method for method, _ in PROMPTS))
    folders = {method: goldens / "prompts" / f"llama-{method}" for method in methods}
    base = read_golden(goldens / "llama" / "golden.safetensors")
    with golden_server(tmp_path, "llama", "fp32", *flags(setting), folders=folders) as server:
        for method in methods:
            assert PROMPTS[method, setting] == "works", "no cell of this table is refused today; extend this test"
            golden = read_golden(folders[method] / "golden.safetensors")
            ids = list(golden["input_ids"])
            for _ in range(2):  # the second time from the prefix cache
                assert drawn(server, method, ids) == list(golden["drawn"]), method
            assert worst_difference(server, method, ids, golden["logits"]) < 1e-3, method
            assert worst_difference(server, "base", list(base["input_ids"]), base["logits_base"]) < 1e-3
