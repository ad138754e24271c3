"""graft doctor: what it says of this machine, and what it refuses."""

import json
import os
import subprocess

import pytest

from conftest import binary


def run(*arguments, **environment):
    return subprocess.run([binary(), "doctor", *arguments], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **environment})


def test_the_cpu_agrees():
    done = run("--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert "all ops agree with their definitions" in done.stdout
    assert "DIFFERS" not in done.stdout
    for op in ("gemm", "lora", "attention, decode", "attention, prompts", "sampling"):
        assert op in done.stdout


@pytest.mark.parametrize("isa", ["portable", "avx2"])
def test_json_names_each_check(isa):
    done = run("--device", "cpu", "--json", GRAFT_CPU_ISA=isa)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["device"] == "cpu"
    assert all(check["agrees"] for check in report["checks"])
    assert {check["dtype"] for check in report["checks"]} == {"bf16", "fp32"}
    assert report["gbytes_per_s"] > 0 and report["bf16_gflops"] > 0


def test_a_card_that_is_not_there_is_refused():
    done = run("--device", "cuda:63")
    assert done.returncode == 2
    assert "--device cuda:63" in done.stderr
