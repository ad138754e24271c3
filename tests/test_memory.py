"""Memory is said before it is taken: what does not fit is refused with the sum, before the model is read. The device's
memory is cut by --memory-gib."""

import json
import re
import subprocess

import pytest

from conftest import DEMO, Server, bench_binary, binary

SHAPE = str(DEMO / "base" / "config.json")


def refusal(*args, program=binary):
    """What the command says on its way out, without a failed check."""
    done = subprocess.run([program(), *map(str, args)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, (done.returncode, done.stderr)
    assert "CHECK" not in done.stderr and "loading" not in done.stderr, done.stderr
    return done.stderr


def terms(text):
    """The terms of the sum, largest first, in bytes; and the sum that it says."""
    factor = {"GiB": 2**30, "MiB": 2**20}
    total = re.search(r"not enough memory: ([\d.]+) (GiB|MiB) are needed", text)
    found = re.findall(r"^ *([\d.]+) (GiB|MiB)  (.*)$", text, re.MULTILINE)
    assert total and found, text
    return [(float(n) * factor[unit], what) for n, unit, what in found], float(total[1]) * factor[total[2]]


@pytest.mark.parametrize(("args", "words"), [
    (["--memory-gib", "0.02"], "weights in bf16 (--dtype)"),
    (["--memory-gib", "0.5", "--step-tokens-max", "300000"], "activations of 300000 rows (--step-tokens-max)"),
    (["--memory-gib", "0.5", "--pool-gib", "3"], "3.0 GiB  page pool (--pool-gib)"),
    (["--memory-gib", "0.5", "--host-gib", "0.6"], "adapters in the host's memory (--host-gib)"),
    (["--memory-gib", "0.5", "--adapters-max", "1000000"], "tables of 1000000 adapters (--adapters-max)")])
@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["generate", "--prompt", "It"], ["runner", "--rpc-port", "0"]])
def test_what_does_not_fit_is_refused_with_the_sum(command, args, words):
    text = refusal(*command, "--model", DEMO / "base", "--device", "cpu", *args)
    assert words in text and f"of --memory-gib {args[1]} on cpu" in text, text
    assert "lower what the flags in brackets say" in text
    summed, total = terms(text)
    assert sorted(summed, reverse=True)[0] == summed[0]
    assert abs(sum(size for size, _ in summed) - total) < 0.07 * 2**30 + len(summed) * 2**20


def test_a_context_that_no_pool_can_hold_is_refused(tmp_path):
    config = json.loads((DEMO / "base" / "config.json").read_text())
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 1_000_000}))
    # The tokenizer is looked at before memory is planned, and both before weights are read: there are none here.
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (model / name).symlink_to(DEMO / "base" / name)
    text = refusal("serve", "--model", model, "--device", "cpu", "--memory-gib", "2")
    assert "page pool of one full context, 1000000 tokens (--context-tokens-max)" in text


def test_what_fits_is_served_within_the_limit_and_said():
    with Server("--memory-gib", "0.6", "--sequences-max", "2000", "--host-gib", "0.1", "--device", "cpu") as server:
        assert server.says("memory beside the weights: ")


def test_adapters_on_their_way_are_in_the_sum():
    with Server("--memory-gib", "0.6", "--sequences-max", "2000", "--host-gib", "0.1", "--device", "cpu") as server:
        assert server.says(" adapters on their way from their folders")


def test_the_goal_is_said():
    with Server("--goal", "throughput", "--step-tokens-max", "3000", "--tune", "step-ms-max=700", "--device",
                "cpu") as server:
        assert server.says("goal throughput: steps of up to 3000 rows, meant to take at most 700 ms")
        assert server.metric("graft_step_rows_max", 'goal="throughput"') == 3000
        assert abs(server.metric("graft_step_bound_seconds", 'goal="throughput"') - 0.7) < 1e-9


BENCH_STEP = ["step", "--shape", SHAPE, "--device", "cpu"]


def test_a_bench_of_a_large_models_large_batches_is_refused_with_the_sum(tmp_path):
    """It asked a GPU for 71 GB and died."""
    shape = {**json.loads((DEMO / "base" / "config.json").read_text()), "hidden_size": 4096, "intermediate_size": 14336,
             "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
             "head_dim": 128, "max_position_embeddings": 131072, "tie_word_embeddings": False}
    (tmp_path / "shape.json").write_text(json.dumps(shape))
    text = refusal("step", "--shape", tmp_path / "shape.json", "--device", "cpu", "--memory-gib", "79", "--batch",
                   "1,32,128", "--context", "512,4096", "--prefill-tokens", "8192", program=bench_binary)
    summed, total = terms(text)
    assert "2 x keys and values of a server (--batch, --context, --prefill-tokens)" in summed[0][1]
    assert total > 150 * 2**30
    assert {"15.0 GiB  weights in bf16 (--dtype)", "2 x activations of 8192 rows (--prefill-tokens, --mixed-tokens, "
            "--batch)"} <= {line.strip() for line in text.split("\n")} | {what for _, what in summed}


@pytest.mark.parametrize(("args", "words"), [
    ([*BENCH_STEP, "--batch", "1,32,128", "--context", "256", "--prefill-tokens", "256", "--memory-gib", "0.3"],
     ["2 x keys and values of a server (--batch, --context, --prefill-tokens)", "adapters of a server (--batch"]),
    ([*BENCH_STEP, "--ablations", "--batch", "64", "--context", "256", "--prefill-tokens", "256", "--memory-gib", "0.3"],
     ["3 x keys and values", "2 x adapters of a server", "projections with an adapter merged"]),
    (["serve", "--shape", SHAPE, "--device", "cpu", "--batch", "64", "--adapters", "200", "--rank", "64",
      "--memory-gib", "0.3"], ["2 x page pool of one full context", "adapters, made and kept (--adapters, --rank)"]),
    (["adapters", "--suite", "throughput-by-adapters", "--shape", SHAPE, "--device", "cpu", "--memory-gib", "0.02"],
     ["weights in bf16"]),
    (["assist", "--shape", SHAPE, "--device", "cpu", "--rows", "200000", "--memory-gib", "0.3"],
     ["a step of 200000 rows (--rows)", "3 x the CPU assist of 200000 rows (--rows)"]),
    (["profile", "--shape", SHAPE, "--device", "cpu", "--batch", "256", "--memory-gib", "0.3"],
     ["adapters (--batch, --ranks)"])])
def test_benches_count_all_their_servers(args, words):
    text = refusal(*args, program=binary if args[0] == "profile" else bench_binary)
    for word in words:
        assert word in text, text
