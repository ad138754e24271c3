"""graft adapters merge: the folder that it writes answers as the served adapter does, and what it does not merge is
refused by name."""

import ctypes
import json
import os
import resource
import shutil
import struct
import subprocess

import pytest

from conftest import DEMO, ROOT, Server, binary, complete
from test_activated import activate
from test_adapter_texts import MESSAGES, TEMPLATE, copy_of, post
from test_features import table

GOLDENS = ROOT / "tests" / "goldens"
PROMPTS = ["It was", "It was a dark and stormy night, and", "The house stood", "She had never"]
WEIGHTS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def merge(name, out, *args, model=DEMO / "base", adapters=DEMO / "adapters", **kwargs):
    return subprocess.run([binary(), "adapters", "merge", "--model", str(model), "--adapters", str(adapters), "--adapter",
                           name, "--out", str(out), *args], capture_output=True, text=True, timeout=300, **kwargs)


def merged(name, out, *args, **kwargs):
    done = merge(name, out, *args, **kwargs)
    assert done.returncode == 0, done.stderr
    assert not out.with_name(out.name + ".part").exists()
    return done.stdout


def tensors_of(path):
    """The header's bytes, and {name: (dtype, bytes)}."""
    data = path.read_bytes()
    end = 8 + struct.unpack("<Q", data[:8])[0]
    entries = json.loads(data[8:end])
    entries.pop("__metadata__", None)
    return data[:end], {name: (entry["dtype"], data[end + entry["data_offsets"][0]:end + entry["data_offsets"][1]])
                        for name, entry in entries.items()}


def widened(folder):
    """The demo's base with its bf16 as fp32, which a server in fp32 computes with anyway."""
    shutil.copytree(DEMO / "base", folder)
    for name in WEIGHTS:
        header, data = {}, b""
        for tensor, (dtype, values) in tensors_of(folder / name)[1].items():
            assert dtype == "BF16"
            wide = bytearray(2 * len(values))
            wide[2::4], wide[3::4] = values[::2], values[1::2]
            shape = SHAPES[name][tensor]
            header[tensor] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(wide)]}
            data += wide
        text = json.dumps(header).encode()
        (folder / name).write_bytes(struct.pack("<Q", len(text)) + text + data)
    return folder


def shapes_of(path):
    data = path.read_bytes()
    header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
    header.pop("__metadata__", None)
    return {name: entry["shape"] for name, entry in header.items()}


SHAPES = {name: shapes_of(DEMO / "base" / name) for name in WEIGHTS}


def answers(server, model):
    return [complete(server, model, prompt) for prompt in PROMPTS]


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    return widened(tmp_path_factory.mktemp("wide") / "base")


def test_the_merged_model_answers_as_the_served_adapter(tmp_path, wide):
    """In fp32, where W + BA loses no bits that a greedy choice could hang on."""
    with Server("--dtype", "fp32") as server:
        expected = {name: answers(server, name) for name in ("base", "austen", "lovecraft")}
    assert len(set(map(tuple, expected.values()))) == 3
    for name in ("austen", "lovecraft"):
        said = merged(name, tmp_path / name, model=wide)
        assert "texts: the base's\n" in said
        with Server("--dtype", "fp32", "--model-name", "base", model=tmp_path / name) as server:
            assert answers(server, "base") == expected[name], name


def test_files_tensors_and_dtypes_stay(tmp_path):
    shutil.copytree(DEMO / "base", tmp_path / "base")
    for name in ("pytorch_model.bin", "other.safetensors", "rust_model.ot", "model.onnx_data", ".hidden", "LICENSE"):
        (tmp_path / "base" / name).write_text(name)
    (tmp_path / "base" / "original").mkdir()
    (tmp_path / "base" / "additional_chat_templates").mkdir()
    (tmp_path / "base" / "additional_chat_templates" / "tool_use.jinja").write_text("{{ tools }}")
    out = tmp_path / "out"
    said = merged("austen", out, model=tmp_path / "base")
    assert "may hold the base's weights: model.onnx_data, original, other.safetensors, pytorch_model.bin, rust_model.ot\n" in said
    names = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    wanted = {path.name for path in (DEMO / "base").iterdir()} | {"LICENSE", "additional_chat_templates/tool_use.jinja"}
    assert names == wanted
    changed = 0
    for name in names:
        if name not in WEIGHTS:
            assert (out / name).read_bytes() == (tmp_path / "base" / name).read_bytes(), name
            continue
        header, tensors = tensors_of(out / name)
        base_header, base = tensors_of(DEMO / "base" / name)
        assert header == base_header
        for tensor, value in tensors.items():
            adapted = tensor.endswith("_proj.weight")
            assert (value != base[tensor]) == adapted, tensor
            changed += adapted
    assert changed == 12 * 7 and "84 of 110 tensors changed" in said


def test_the_adapters_texts_hold_for_the_merged_model(tmp_path):
    folder = tmp_path / "adapters"
    copy_of(folder / "own", chat_template_jinja=TEMPLATE, tokenizer_config_json={"eos_token": "<|start|>"},
            generation_config_json={"eos_token_id": [1, 300]})
    out, kept = tmp_path / "out", tmp_path / "kept"
    said = merged("own", out, adapters=folder)
    assert "its chat template, its eos_token <|start|>, tokens [2,300] end its answers" in said
    generation = json.loads((out / "generation_config.json").read_text())
    assert generation["eos_token_id"] == [1, 3, 2, 300]
    base_generation = json.loads((DEMO / "base" / "generation_config.json").read_text())
    assert generation | {"eos_token_id": None} == base_generation | {"eos_token_id": None}
    with Server(adapters=folder) as server:
        status, served = post(server, "/tokenize", model="own", messages=MESSAGES, return_token_strs=True)
        assert status == 200, served
        plain = post(server, "/tokenize", model="base", messages=MESSAGES, return_token_strs=True)[1]
        assert served["tokens"] != plain["tokens"]
    for model, wanted in ((out, served), (kept, plain)):
        if model == kept:
            assert "texts: the base's\n" in merged("own", kept, "--adapter-text", "base", adapters=folder)
        with Server("--model-name", "base", model=model) as server:
            status, tokens = post(server, "/tokenize", model="base", messages=MESSAGES, return_token_strs=True)
            assert status == 200 and tokens["tokens"] == wanted["tokens"]


@pytest.mark.parametrize("token", ["bos_token", "eos_token"])
def test_the_adapters_tokens_change_no_prompts(tmp_path, token):
    """They are known to the base's templates, and are no tokens of the tokenizer."""
    base, folder, out = tmp_path / "base", tmp_path / "adapters", tmp_path / "out"
    shutil.copytree(DEMO / "base", base)
    config = json.loads((base / "tokenizer_config.json").read_text())
    config |= {"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": True}
    (base / "tokenizer_config.json").write_text(json.dumps(config))
    (base / "special_tokens_map.json").write_text(json.dumps({"bos_token": config["bos_token"]}))
    (base / "chat_template.jinja").write_text("\n{{ bos_token }}" + TEMPLATE)
    (base / "additional_chat_templates").mkdir()
    (base / "additional_chat_templates" / "tool_use.jinja").write_text("{{ bos_token }}{{ eos_token }} tools")
    value = "<|start|>" if token == "bos_token" else "hat"  # an ordinary piece of words
    copy_of(folder / "own", tokenizer_config_json={token: value})
    assert f"its {token} {value}" in merged("own", out, model=base, adapters=folder)
    tools = [{"type": "function", "function": {"name": "look"}}]
    asked = ({"prompt": "That hat has what it hates"}, {"messages": MESSAGES}, {"messages": MESSAGES, "tools": tools})

    def tokens(server, model):
        answers = [post(server, "/tokenize", model=model, **one) for one in asked]
        assert [status for status, _ in answers] == [200] * len(asked), answers
        return [answer["tokens"] for _, answer in answers]
    with Server(model=base, adapters=folder) as server:
        served, plain = tokens(server, "own"), tokens(server, "base")
        assert [one == other for one, other in zip(served, plain, strict=True)] == [True, False, False]
    with Server("--model-name", "base", model=out) as server:
        assert tokens(server, "base") == served


def test_what_no_weights_answer_like_is_refused_by_name(tmp_path):
    folder = tmp_path / "adapters"
    copy_of(folder / "activated")
    activate(folder / "activated", [5, 6])
    copy_of(folder / "broken", chat_template_jinja="{% for %}")
    cells = {row: cell.removeprefix("refused: ") for (row, _), cell in table("Merged into a model").items()}
    out = tmp_path / "out"

    def refusal(name, **kwargs):
        done = merge(name, out, **{"adapters": folder, **kwargs})
        assert done.returncode in (1, 2) and not out.exists(), done.stdout
        assert len(done.stderr.splitlines()) == 1, done.stderr
        return done.stderr
    assert cells["activated LoRA"] in refusal("activated")
    for method in ("prompt", "p-tuning", "prefix"):
        shutil.copytree(GOLDENS / "prompts" / f"llama-{method}", folder / method)
        assert cells["prompts and prefixes"] in refusal(method, model=GOLDENS / "llama"), method
    for sum_of in ("activated,broken", "activated=0.5 + broken=0.5"):
        assert cells["weighted sum"] in refusal(sum_of) and "add_weighted_adapter" in refusal(sum_of)
    assert "a chat template that cannot be used" in refusal("broken")
    assert "no adapter 'brokn'" in refusal("brokn") and "did you mean 'broken'?" in refusal("brokn")
    assert "--adapter NAME --out DIR" in subprocess.run(
        [binary(), "adapters", "merge", "--model", DEMO / "base"], capture_output=True, text=True, timeout=60).stderr


def test_nothing_is_written_over_and_no_half_is_left(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("mine")
    assert "is there already" in merge("austen", out).stderr
    assert [path.name for path in out.iterdir()] == ["mine"]
    half = tmp_path / "new.part"
    half.mkdir()
    assert "another merge writes it, or one was interrupted" in merge("austen", tmp_path / "new").stderr
    half.rmdir()
    assert "cannot write" in merge("austen", tmp_path / "no" / "folder").stderr
    # A shard that cannot be read to its end: what was written before it goes.
    shutil.copytree(DEMO / "base", tmp_path / "base")
    path = tmp_path / "base" / WEIGHTS[1]
    data = bytearray(path.read_bytes())
    end = 8 + struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8:end])["model.layers.11.mlp.down_proj.weight"]
    data[end + entry["data_offsets"][1] - 1] = 0x7f
    data[end + entry["data_offsets"][1] - 2] = 0x80
    path.write_bytes(data)
    done = merge("austen", tmp_path / "new", model=tmp_path / "base")
    assert "model.layers.11.mlp.down_proj.weight is not finite in bf16" in done.stderr, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"out", "base"}


def test_an_empty_folder_that_is_there_stays(tmp_path):
    """As a volume that is mounted, or the caller's working folder."""
    out = tmp_path / "out"
    out.mkdir(mode=0o750)
    (out / "lost+found").mkdir()
    before = out.stat()
    half = out / ".part"
    half.mkdir()
    assert f"{half} is there: another merge writes it" in merge("austen", ".", cwd=out).stderr
    half.rmdir()
    done = merge("austen", ".", cwd=out)
    assert done.returncode == 0, done.stderr
    assert (out.stat().st_ino, out.stat().st_mode) == (before.st_ino, before.st_mode)
    wanted = {path.name for path in (DEMO / "base").iterdir()} | {"lost+found"}
    assert {path.name for path in out.iterdir()} == wanted
    assert merge("austen", ".", cwd=out).returncode == 1


def test_an_out_that_cannot_be_made_is_told_at_once(tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    assert "is there already" in merge("austen", tmp_path / "link").stderr
    (tmp_path / "gone").mkdir()
    done = merge("austen", "out", cwd=tmp_path / "gone", preexec_fn=(tmp_path / "gone").rmdir)
    assert done.returncode == 2 and "cannot write out: No such file" in done.stderr, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_rights_are_the_bases(tmp_path):
    base, folder, out = tmp_path / "base", tmp_path / "adapters", tmp_path / "out"
    shutil.copytree(DEMO / "base", base)
    (base / "additional_chat_templates").mkdir()
    (base / "additional_chat_templates" / "tool_use.jinja").write_text("{{ tools }}")
    for path in base.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    (base / "config.json").chmod(0o640)
    base.chmod(0o700)
    copy_of(folder / "own", generation_config_json={"eos_token_id": 300})
    merged("own", out, model=base, adapters=folder)
    modes = {path.relative_to(base): path.stat().st_mode for path in (base, *base.rglob("*"))}
    assert {path.relative_to(out): path.stat().st_mode for path in (out, *out.rglob("*"))} == modes


def keep_to_modes():
    """Root reads what the modes forbid by two capabilities, without which a program is started."""
    if os.geteuid() == 0:
        for capability in (1, 2):  # DAC_OVERRIDE, DAC_READ_SEARCH
            assert ctypes.CDLL(None).prctl(24, capability, 0, 0, 0) == 0  # PR_CAPBSET_DROP


def test_a_file_that_cannot_be_read_is_told_before_anything_is_written(tmp_path):
    shutil.copytree(DEMO / "base", tmp_path / "base")
    notes = tmp_path / "base" / "notes.txt"
    notes.write_text("notes")
    notes.chmod(0)
    # Written first, the weights would be what fails.
    limit = (tmp_path / "base" / WEIGHTS[0]).stat().st_size // 2

    def start():
        keep_to_modes()
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    done = merge("austen", tmp_path / "out", model=tmp_path / "base", preexec_fn=start)
    assert done.returncode == 1 and f"cannot read {notes}: Permission denied" in done.stderr, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["base"]


@pytest.mark.parametrize("there", [False, True])
def test_a_file_beyond_the_limits_size_is_an_error(tmp_path, there):
    """Also one of more than a GiB, which is no weights, is read to where the limit stops it."""
    shutil.copytree(DEMO / "base", tmp_path / "base")
    with (tmp_path / "base" / "large").open("wb") as file:
        file.truncate((1 << 30) + 1)  # sparse
    out = tmp_path / "out"
    if there:
        out.mkdir()
    limit = 2 * max((DEMO / "base" / name).stat().st_size for name in WEIGHTS)
    done = merge("austen", out, model=tmp_path / "base",
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    assert done.returncode == 1 and "large.new: File too large" in done.stderr, (done.returncode, done.stderr)
    assert {path.name for path in tmp_path.iterdir()} == ({"base", "out"} if there else {"base"})
    assert not there or not list(out.iterdir())


def test_a_disk_without_room_is_told_before_anything_is_written(tmp_path):
    shutil.copytree(DEMO / "base", tmp_path / "base")
    index = tmp_path / "base" / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"]["huge"] = "huge.safetensors"
    index.write_text(json.dumps(content))
    size = 1 << 42
    header = json.dumps({"huge": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    with (tmp_path / "base" / "huge.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)  # sparse
    done = merge("austen", tmp_path / "out", model=tmp_path / "base")
    assert done.returncode == 1 and "the new model takes 4096.0 GiB, " in done.stderr, done.stderr
    assert " more than the disk of " in done.stderr and "--out" in done.stderr, done.stderr
    assert not (tmp_path / "out").exists() and not (tmp_path / "out.part").exists()


@pytest.mark.parametrize("flags", [["--merge", "auto"], ["--merge-after-steps", "1"]])
@pytest.mark.parametrize("command", ["serve", "generate"])
def test_the_flags_in_whose_place_it_came_are_refused(command, flags):
    done = subprocess.run([binary(), command, *flags], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert f"{flags[0]} was removed; use `graft adapters merge`" in done.stderr
