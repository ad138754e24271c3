"""What lies beside an adapter's weights: its chat template and its end of answers hold for it, another vocabulary is refused,
and the messages of folders that are no adapter say what to do."""

import contextlib
import hashlib
import json
import shutil
import sqlite3
import struct
import subprocess
import urllib.error
import urllib.request

import openai
import pytest

from conftest import ADMIN_KEY, DEMO, Server, binary
from test_cluster import Frontend, Runner, pytestmark as needs_cluster

TEMPLATE = "{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}{% endfor %}"
MESSAGES = [{"role": "user", "content": "Who keeps the lamp?"}]
PROMPT = "It was a dark and stormy night, and"


def copy_of(folder, of="austen", **files):
    """A copy of an adapter with further files, by their names with _ for the last dot."""
    shutil.copytree(DEMO / "adapters" / of, folder)
    for name, content in files.items():
        path = folder / ".".join(name.rsplit("_", 1))
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def without_b(folder):
    """All of B is zero."""
    path = folder / "adapter_model.safetensors"
    data = bytearray(path.read_bytes())
    (length,) = struct.unpack("<Q", data[:8])
    for name, entry in json.loads(data[8:8 + length]).items():
        if "lora_B" in name:
            begin, end = (8 + length + at for at in entry["data_offsets"])
            data[begin:end] = bytes(end - begin)
    path.write_bytes(data)


def post(server, path, **body):
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(),
                                     {"Content-Type": "application/json", "Authorization": f"Bearer {ADMIN_KEY}"})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())["error"]["message"]


def tokens_of(server, model):
    status, answer = post(server, "/tokenize", model=model, messages=MESSAGES, return_token_strs=True)
    assert status == 200, answer
    return answer["tokens"]


def complete(server, model, **more):
    reply = server.client().completions.create(model=model, prompt=PROMPT, max_tokens=12, temperature=0,
                                               extra_body={"return_token_ids": True, **more})
    return reply.choices[0]


def run(*args):
    return subprocess.run([binary(), "adapters", *map(str, args), "--model", str(DEMO / "base")], capture_output=True,
                          text=True, timeout=120)


@pytest.fixture(scope="module")
def drawn(server):
    """The tokens of austen's answer."""
    return complete(server, "austen").token_ids


@pytest.fixture(scope="module")
def adapters(tmp_path_factory, drawn):
    folder = tmp_path_factory.mktemp("texts") / "adapters"
    folder.mkdir()
    copy_of(folder / "own", chat_template_jinja=TEMPLATE, tokenizer_config_json={"eos_token": "<|start|>"},
            generation_config_json={"eos_token_id": [drawn[3]], "temperature": 0.1})
    same = copy_of(folder / "same")
    for name in ("chat_template.jinja", "tokenizer_config.json", "tokenizer.json", "generation_config.json"):
        shutil.copy(DEMO / "base" / name, same / name)
    copy_of(folder / "broken", chat_template_jinja="fine\n{% include 'x' %}")
    copy_of(folder / "long", chat_template_jinja="x" * (300 << 10))
    copy_of(folder / "wider", added_tokens_json={"<|new|>": 8192})
    without_b(copy_of(folder / "idle"))
    copy_of(folder / "deep" / "checkpoint-10")
    mlx = copy_of(folder / "mlx")
    (mlx / "adapter_model.safetensors").rename(mlx / "adapters.npz")
    (copy_of(folder / "bare") / "adapter_config.json").unlink()
    (same / "adapter_model.bin").write_bytes(b"pickle")
    return folder


@pytest.fixture(scope="module")
def served(adapters):
    with Server("--dtype", "fp32", "--admin-key", ADMIN_KEY, "--speculate", 3, adapters=adapters) as running:
        yield running


def test_its_template_holds_for_it(served, server):
    base = tokens_of(served, "base")
    assert tokens_of(served, "same") == base
    own = tokens_of(served, "own")
    assert own != base
    text = post(served, "/detokenize", model="own", tokens=own)[1]["prompt"]
    assert text == "[user] Who keeps the lamp?<|start|>"
    chat = served.client().chat.completions.create(model="own", messages=MESSAGES, max_tokens=1)
    assert chat.usage.prompt_tokens == len(own)


def test_its_stop_tokens_end_its_answers(served, drawn):
    first = drawn.index(drawn[3])
    for stops in ({}, {"stop_token_ids": [drawn[3]]}):
        choice = complete(served, "own", **stops)
        assert choice.finish_reason == "stop" and choice.token_ids[:first] == drawn[:first]
    assert complete(served, "same").token_ids == drawn
    assert complete(served, "own", ignore_eos=True).token_ids == drawn
    streamed = served.client().completions.create(model="own", prompt=PROMPT, max_tokens=12, temperature=0, stream=True)
    assert [c.choices[0].finish_reason for c in streamed if c.choices][-1] == "stop"


def test_a_broken_template_forbids_chat_alone(served):
    for name, why in (("broken", "line 2"), ("long", "307200 bytes, the limit is 262144")):
        with pytest.raises(openai.BadRequestError, match=why):
            served.client().chat.completions.create(model=name, messages=MESSAGES, max_tokens=1)
        assert complete(served, name).text


def test_models_tell(served, drawn):
    models = {model.id: model for model in served.client().models.list().data}
    assert models["own"].chat_template == "adapter" and set(models["own"].stop_token_ids) == {2, drawn[3]}
    assert models["same"].chat_template == "base" and models["same"].stop_token_ids == []
    assert "wider" not in models and "deep" not in models and "mlx" not in models


def test_start_and_loads_say_what_to_do(served, adapters):
    for path, what in [("wider", "'<|new|>' is token 8192"), ("deep", "checkpoint-10"), ("mlx", "mlx-lm"),
                       ("hf://o/austen", "nothing is fetched")]:
        status, message = post(served, "/v1/load_lora_adapter", lora_name="x", lora_path=path)
        assert status in (400, 404) and what in message, message
    status, loaded = post(served, "/v1/load_lora_adapter", lora_name="x", lora_path="deep/checkpoint-10")
    assert status == 200 and loaded["chat_template"] == "base" and "chat_template_error" not in loaded
    status, loaded = post(served, "/v1/load_lora_adapter", lora_name="y", lora_path="broken")
    assert status == 200 and "line 2" in loaded["chat_template_error"]
    status, loaded = post(served, "/v1/load_lora_adapter", lora_name="z", lora_path="idle")
    assert status == 200 and "z changes nothing" in loaded["warning"] and "warning" not in post(
        served, "/v1/load_lora_adapter", lora_name="x", lora_path="deep/checkpoint-10")[1]
    with Server("--dtype", "fp32", adapters=adapters) as again:
        assert again.stop() == 0
        log = again.log()
    for what in ("adapter 'wider' is not served", "checkpoint-10", "mlx-lm", "idle changes nothing",
                 "broken: chat with it is refused: ", "adapter 'bare' is not served", "no adapter_config.json",
                 "same: adapter_model.safetensors is served, adapter_model.bin beside it is not read"):
        assert what in log, log


def test_list_verify_and_inspect_say_it(adapters):
    listed = run("list", "--adapters", adapters).stdout
    for what in ("checkpoint-10", "mlx-lm", "<|new|>", "it has adapter_model.safetensors and no adapter_config.json"):
        assert what in listed
    verified = run("verify", "--adapters", adapters).stdout
    lines = {line.split(":")[0].rsplit("/", 1)[-1]: line for line in verified.splitlines()}
    assert "brings a chat template" in lines["own"] and "also end at tokens" in lines["own"]
    assert lines["same"].endswith("ok, self-test passed")
    assert "cannot be used" in lines["broken"] and "line 2" in lines["broken"]
    assert "changes nothing" in lines["idle"]
    facts = json.loads(run("inspect", adapters / "own").stdout)
    assert facts["chat_template"] == "adapter" and facts["eos_token"] == "<|start|>"
    assert json.loads(run("inspect", adapters / "idle").stdout)["changes_nothing"] is True
    assert "line 2" in json.loads(run("inspect", adapters / "broken").stdout)["chat_template_error"]


def test_an_empty_folder_is_told(tmp_path):
    (tmp_path / "notes").mkdir()
    assert run("list", "--adapters", tmp_path).stdout.startswith(f"no adapters in {tmp_path}: ")
    with Server(adapters=tmp_path) as server:
        assert server.says(f"no adapters in {tmp_path}: put a folder for each there")


def test_the_bases_texts_can_hold_for_all(adapters, drawn):
    with Server("--dtype", "fp32", "--adapter-text", "base", "--admin-key", ADMIN_KEY, adapters=adapters) as plain:
        assert tokens_of(plain, "own") == tokens_of(plain, "base")
        assert complete(plain, "own").token_ids == drawn
        assert complete(plain, "wider").token_ids == drawn
        status, loaded = post(plain, "/v1/load_lora_adapter", lora_name="x", lora_path="own")
        assert status == 200, loaded
    told = [json.loads(run("inspect", adapters / name, "--adapter-text", "base").stdout)["hash"] for name in ("own", "same")]
    assert told == [loaded["hash"]] * 2


def test_an_answer_in_a_form_may_end_as_the_adapter_does(adapters, tmp_path):
    """Where the form is complete one of the adapter's own ends is the likeliest: biased, it is drawn."""
    start = json.loads((DEMO / "base" / "tokenizer_config.json").read_text())
    assert start["eos_token"] != "<|start|>"
    with Server("--dtype", "fp32", adapters=adapters) as running:
        answers = [running.client().completions.create(
            model=model, prompt=PROMPT, max_tokens=20, temperature=0, logit_bias={"2": 100},
            extra_body={"return_token_ids": True, "guided_choice": ["yes", "no"]}).choices[0] for model in ("own", "same")]
    for answer in answers:
        assert answer.finish_reason == "stop" and answer.text in ("yes", "no")
    assert answers[0].token_ids[-1] == 2
    assert answers[1].token_ids[-1] != 2


def test_what_an_earlier_version_remembered_has_its_texts_now(adapters, tmp_path):
    """That version's hash of an adapter was of its config and its weights alone."""
    folder = tmp_path / "adapters"
    folder.mkdir()
    own = shutil.copytree(adapters / "own", folder / "own")
    registry = tmp_path / "registry.db"
    options = ("--dtype", "fp32", "--admin-key", ADMIN_KEY, "--registry", registry)
    with Server(*options, adapters=folder) as running:
        status, now = post(running, "/v1/load_lora_adapter", lora_name="mine", lora_path="own")
        assert status == 200
    former = hashlib.sha256()
    for file in ("adapter_config.json", "adapter_model.safetensors"):
        data = (own / file).read_bytes()
        former.update(struct.pack("<Q", len(data)) + data)
    with contextlib.closing(sqlite3.connect(registry)) as rows:
        assert rows.execute("UPDATE adapter SET hash = ?", (former.hexdigest(),)).rowcount == 1
        rows.commit()
    with Server(*options, adapters=folder) as running:
        models = {model.id: model for model in running.client().models.list().data}
        assert models["mine"].hash == now["hash"] and models["mine"].chat_template == "adapter"
        assert complete(running, "mine").text


@needs_cluster
def test_frontends_have_it_from_their_runners(adapters, served):
    with contextlib.ExitStack() as stack:
        runner = Runner("--dtype", "fp32", adapters=adapters).start()
        stack.callback(runner.stop)
        runner.wait_for("runner of")
        frontend = Frontend([runner], "--admin-key", ADMIN_KEY).start()
        stack.callback(frontend.stop)
        frontend.wait_for("is up")
        frontend.wait_for("frontend of")
        for model in ("own", "same"):
            assert tokens_of(frontend, model) == tokens_of(served, model)
            assert complete(frontend, model).token_ids == complete(served, model).token_ids
        with pytest.raises(openai.BadRequestError, match="line 2"):
            frontend.client().chat.completions.create(model="broken", messages=MESSAGES, max_tokens=1)
        listed = {model.id: model for model in frontend.client().models.list().data}
        assert listed["own"].chat_template == "adapter"
