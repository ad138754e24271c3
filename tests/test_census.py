"""graft adapters verify --census: a line per adapter, without weights. And the census itself, where PEFT is there."""

import json
import subprocess
import sys

import pytest

from conftest import DEMO, ROOT, binary

ADAPTER = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 8, "lora_alpha": 16,
           "target_modules": ["q_proj", "v_proj"]}


def verify(*args):
    return subprocess.run([binary(), "adapters", "verify", *map(str, args)], capture_output=True, text=True,
                          timeout=120)


def census(tmp_path, *lines):
    path = tmp_path / "census.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def test_a_line_per_adapter(tmp_path):
    path = census(tmp_path,
                  ADAPTER | {"base_class": "Qwen3ForCausalLM", "base_model_name_or_path": "Qwen/Qwen3-0.6B"},
                  ADAPTER | {"base_class": "LlamaForCausalLM", "base_quant": "bnb-4bit"},
                  "",
                  ADAPTER | {"base_class": "ChatGLMModel"},
                  ADAPTER | {"base_class": "Glm4ForCausalLM", "target_modules": ["gate_up_proj"]},
                  ADAPTER | {"base_class": "Exaone4ForCausalLM", "use_dora": True},
                  ADAPTER, "{",
                  ADAPTER | {"base_class": "Gemma3ForConditionalGeneration"})
    done = verify("--census", path)
    assert done.returncode == 1 and "4 of 8 adapters cannot be served" in done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "1 Qwen/Qwen3-0.6B (Qwen3ForCausalLM): served"
    assert lines[1] == "2 - (LlamaForCausalLM): served with the original of this base, whose weights are bnb-4bit"
    assert lines[2].startswith("4 - (ChatGLMModel): refused: ") and "GlmForCausalLM" in lines[2]
    assert "Olmo3ForCausalLM" not in lines[2], "the list of classes is the same for all lines"
    assert lines[3] == "5 - (Glm4ForCausalLM): served"
    assert lines[4].startswith("6 - (Exaone4ForCausalLM): refused: ") and "use_dora" in lines[4]
    assert lines[5].startswith("7 -: refused: ") and "base_class" in lines[5]
    assert lines[6].startswith("8 -: refused: ")
    assert lines[7] == "9 - (Gemma3ForConditionalGeneration): served"
    assert lines[8] == "4 of 8 adapters can be served, 1 of them with the original of their base"


def test_all_served(tmp_path):
    done = verify("--census", census(tmp_path, ADAPTER | {"base_class": "GlmForCausalLM"}))
    assert done.returncode == 0 and not done.stderr
    assert done.stdout.splitlines()[-1].startswith("1 of 1 adapters can be served")


def test_what_makes_no_sense(tmp_path):
    path = census(tmp_path, ADAPTER)
    for args in (["--model", DEMO / "base"], ["--adapters", DEMO / "adapters"], [DEMO / "adapters" / "austen"]):
        done = verify("--census", path, *args)
        assert done.returncode in (1, 2) and "leave out --model" in done.stderr, done.stderr
    assert "no lines" in verify("--census", census(tmp_path, "")).stderr
    assert "no-such-file" in verify("--census", tmp_path / "no-such-file").stderr


def test_the_census_is_answered_as_by_peft():
    """A few lines of it; tests/census.py tries all. It skips where its oracles or the census are absent."""
    done = subprocess.run([sys.executable, ROOT / "tests" / "census.py", "--lines", "1,15,47,205"], capture_output=True,
                          text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    if done.stdout.startswith("skipped: "):
        pytest.skip(done.stdout.strip())
    assert "4 of 4 lines are served" in done.stdout
