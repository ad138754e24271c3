"""`bench/punica.sh` on a tiny shape, on the CPU: both figures' files are there, and their figures can be true."""

import json
import os
import pathlib
import subprocess

import pytest

from conftest import DEMO, LONG_TESTS, ROOT, binary

LAWS = ["distinct", "uniform", "skewed", "identical"]


def lengths(tmp_path):
    source, target = tmp_path / "turns.csv", tmp_path / "lengths.csv"
    turns = ["3,9", "4,4", "1025,9", "9,3", "1024,1024", "1024,1025", "12,6", "20,11"]
    source.write_text("num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n"
                      + "".join(f"{turn},0,1.0\n" for turn in turns))
    subprocess.run([ROOT / "bench" / "sharegpt_lengths.py", source, target], check=True)
    return target


def test_lengths_are_those_usually_drawn(tmp_path):
    assert lengths(tmp_path).read_text().split() == ["prompt_tokens,output_tokens", "4,4", "1024,1024", "12,6", "20,11"]


@pytest.mark.skipif(not LONG_TESTS, reason="takes a minute; `make test-all` runs it")
def test_both_figures(tmp_path):
    short = tmp_path / "short.csv"
    short.write_text("prompt_tokens,output_tokens\n4,4\n12,6\n20,11\n")
    out = tmp_path / "out"
    env = {**os.environ, "OUT": str(out), "SHAPE": str(DEMO / "base" / "config.json"), "DEVICE": "cpu",
           "REQUESTS": "12", "BATCHES": "1,3", "CONTEXTS": "16,24"}

    def punica(**more):
        done = subprocess.run([ROOT / "bench" / "punica.sh", short, pathlib.Path(binary()).parent], env={**env, **more},
                              capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout[-2000:]

    punica()

    step = json.loads((out / "step.json").read_text())
    points = {(row["context"], row["batch"], row["adapters"]): row for row in step["decode"]}
    assert len(points) == len(step["decode"]) == 2 * 2 * 6
    for law in LAWS:
        for batch in (1, 3):
            row = points[16, batch, law]
            parts = [row[f"{part}_floor_ms"] for part in ("gemm", "lora", "attention")]
            assert min(parts) > 0 and abs(sum(parts) - row["floor_ms"]) < 1e-9
            assert row["median_ms"] > 0 and row["floor_ms"] < points[24, batch, law]["floor_ms"]
        assert points[16, 1, law]["bytes_over_base"] == points[16, 1, "identical"]["bytes_over_base"]
    assert points[16, 3, "distinct"]["floor_ms"] > points[16, 3, "identical"]["floor_ms"]

    served = {}
    for path in out.glob("serve-*.json"):
        run = json.loads(path.read_text())
        assert run["requests"] == 12 and 12 * 4 <= run["output_tokens"] <= 12 * 11
        for scenario in run["scenarios"]:
            name = {"lora": run["popularity"]}.get(scenario["name"], scenario["name"].removeprefix("lora_"))
            served.setdefault(name, []).append(scenario["tokens_per_second"])
            adapters = {"base": 0, "identical": 1}.get(name)
            assert 0 < scenario["rows_at_once"] < 12 + 1e-9
            assert scenario["adapters_at_once"] < scenario["rows_at_once"] + 1e-9
            assert adapters is None or abs(scenario["adapters_at_once"] - adapters) < 1e-9
    assert set(served) == {"base", *LAWS}
    assert all(value > 0 for values in served.values() for value in values)

    punica(OUT=str(tmp_path / "one"), FIGURES="11", LAWS="identical")
    one = json.loads((tmp_path / "one" / "serve-identical.json").read_text())["ratios"]
    many = json.loads((out / "serve-distinct.json").read_text())["ratios"]
    assert 1 > one["lora_over_base_by_bytes"] > many["lora_over_base_by_bytes"] > 0
