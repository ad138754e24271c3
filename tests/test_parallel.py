"""One model in several processes (--tensor-parallel): the answers of one, adapters that come and go, and ranks that are
killed, stopped, or cannot read their slice."""

import asyncio
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import time

import openai
import pytest

from conftest import ADMIN_KEY, DEMO, ROOT, Server, bench_binary, binary, complete, complete_all, copy_golden_model
from test_features import ask_admin

ADAPTERS = ["austen", "burroughs", "carroll", "doyle", "lovecraft", "montgomery", "wells", "wodehouse"]
PROMPTS = ["It was", "The old man"]
# Two adapters on the device, some of them in the host's memory, nothing read before it is asked for.
TIGHT = ["--adapters-max", "2", "--host-gib", "0.009", "--tune", "read-at-start-gib=0", "--tune", "turn-ms=50"]


def ranks(count, *args, **kwargs):
    return Server("--dtype", "fp32", "--device", "cpu", "--tensor-parallel", count, *args, **kwargs)


def children(pid):
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if fields[1] == str(pid) and fields[0] != "Z":
            found.append(int(folder.name))
    return sorted(found)


def wait_gone(pids, timeout_s=120):
    deadline = time.monotonic() + timeout_s
    while any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline, f"{pids} are still there"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def expected(server):
    """What one process answers."""
    cases = [(model, prompt) for prompt in PROMPTS for model in ["base", *ADAPTERS]]
    return dict(zip(cases, asyncio.run(complete_all(server, cases)), strict=True))


@pytest.mark.parametrize("count", [2, 4])
def test_more_adapters_than_fit(expected, count):
    """Loaded, evicted and loaded again, on all ranks."""
    with ranks(count, *TIGHT) as server:
        assert len(children(server.process.pid)) == count - 1
        cases = list(expected) * 2
        for case, text in zip(cases, asyncio.run(complete_all(server, cases)), strict=True):
            assert text == expected[case], case
        assert server.metric("graft_adapter_events_total") > 2 * len(ADAPTERS)
        assert server.metric("graft_host_adapter_evictions_total") > 0


def test_a_name_gets_other_weights(expected):
    with ranks(2, "--admin-key", ADMIN_KEY) as server:
        for content in ["doyle", "wells", "doyle"]:
            assert ask_admin(server, "/v1/load_lora_adapter", lora_name="again", lora_path=content) == 200
            assert complete(server, "again") == expected[content, "It was"]
            assert ask_admin(server, "/v1/unload_lora_adapter", lora_name="again") == 200


def test_a_batch_is_what_its_requests_are_alone():
    with ranks(2, "--prefix-cache", "false") as server:
        cases = [(model, prompt) for prompt in PROMPTS for model in ["base", "austen", "lovecraft"]]
        alone = [asyncio.run(complete_all(server, [case]))[0] for case in cases]
        assert asyncio.run(complete_all(server, cases * 3)) == alone * 3


def ended(server):
    """The exit code, and the lines of the log that say why."""
    code = server.process.wait(120)
    return code, [line for line in server.log().splitlines() if " error " in line]


@pytest.mark.parametrize("streams", [False, True])
def test_a_killed_rank_ends_the_server_with_one_line(streams):
    server = ranks(4).start()
    others = children(server.process.pid)
    if streams:
        stream = iter(server.client().completions.create(model="austen", prompt="It", max_tokens=900, temperature=0,
                                                         stream=True, extra_body={"ignore_eos": True}))
        next(stream)
    os.kill(others[1], signal.SIGKILL)
    code, lines = ended(server)
    assert code == 1 and len(lines) == 1, lines
    assert f"rank 2 (process {others[1]}) was killed by signal 9 (Killed)" in lines[0]
    wait_gone(others)
    if streams:
        with pytest.raises(Exception, match="."):
            for _ in stream:
                pass


def test_a_stopped_rank_ends_the_server_with_one_line():
    server = ranks(2, "--rank-timeout-seconds", 1).start()
    other = children(server.process.pid)[0]
    os.kill(other, signal.SIGSTOP)
    assert server.alive(), "nobody has asked for anything yet"
    with pytest.raises(openai.APIError):
        complete(server, "austen")
    code, lines = ended(server)
    assert code == 1 and len(lines) == 1, lines
    assert f"rank 1 (process {other}) is stopped and has not answered for 1 s" in lines[0]
    wait_gone([other])


def test_a_rank_that_was_stopped_for_a_while_goes_on(expected):
    with ranks(2) as server:
        other = children(server.process.pid)[0]
        os.kill(other, signal.SIGSTOP)
        subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -CONT {other}"])
        assert complete(server, "austen") == expected["austen", "It was"]


@pytest.mark.parametrize(("sig", "code"), [(signal.SIGTERM, 0), (signal.SIGKILL, -9)])
def test_ranks_end_with_the_server(sig, code):
    server = ranks(4).start()
    others = children(server.process.pid)
    assert len(others) == 3
    for other in others:
        os.kill(other, signal.SIGTERM)  # as to all processes of a service
    assert complete(server, "base")
    assert server.stop(sig) == code
    wait_gone(others)


def test_a_rank_that_cannot_read_its_slice_says_why(tmp_path):
    """Only rank 1 reads the last rows."""
    model = tmp_path / "model"
    shutil.copytree(DEMO / "base", model)
    name = "model.layers.3.mlp.up_proj.weight"
    index = json.loads((model / "model.safetensors.index.json").read_text())
    with open(model / index["weight_map"][name], "r+b") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        end = json.loads(file.read(size))[name]["data_offsets"][1]
        file.seek(8 + size + end - 2)
        file.write(b"\xff\x7f")
    with pytest.raises(RuntimeError, match=f"rank 1: tensor {name} holds NaN or Inf"):
        ranks(2, model=model).start()


@pytest.mark.parametrize(("args", "words"), [
    (["--tensor-parallel", "3"], "3 ranks cannot share the model's num_attention_heads 4 evenly; as many as can: 2, 4"),
    (["--tensor-parallel", "2", "--cpu-assist", "thread"], "--cpu-assist does not go with --tensor-parallel 2"),
    (["--tensor-parallel", "2", "--host-gib", "0"], "--host-gib 0 does not go with --tensor-parallel 2")])
@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["generate", "--prompt", "It"], ["runner", "--rpc-port", "0"]])
def test_what_ranks_cannot_do_is_refused_by_name(command, args, words):
    done = subprocess.run([binary(), *command, "--model", DEMO / "base", "--device", "cpu", *args], capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == 2 and words in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.parametrize("count", [2, 4])
def test_generate(count):
    args = [binary(), "generate", "--model", DEMO / "base", "--adapters", DEMO / "adapters", "--device", "cpu",
            "--adapter", "base", "--adapter", "doyle", "--prompt", "It was a dark", "--max-tokens", "20",
            "--temperature", "0", "--dtype", "fp32", "--quiet"]
    one, several = (subprocess.run([*args, *more], capture_output=True, text=True, timeout=300, check=True).stdout
                    for more in ([], ["--tensor-parallel", str(count)]))
    assert "doyle" in one and several == one


@pytest.mark.parametrize("name", ["olmo2", "olmo3"])
def test_norms_over_all_heads(tmp_path, name):
    """Four ranks for two heads of keys, of which two ranks each have a copy."""
    copy_golden_model(name, tmp_path / "model")
    shutil.copytree(ROOT / "tests" / "goldens" / name / "adapter", tmp_path / "adapters" / "adapter")
    folders = {"model": tmp_path / "model", "adapters": tmp_path / "adapters"}

    def answers(*args):
        with Server("--dtype", "fp32", "--device", "cpu", "--model-name", "base", *args, **folders) as server:
            return [server.client().completions.create(model=model, prompt=list(range(5, 30)), max_tokens=12,
                                                       temperature=0, logprobs=0, echo=True,
                                                       extra_body={"ignore_eos": True}).choices[0]
                    for model in ("base", "adapter")]

    one = answers()
    assert one[0].text != one[1].text
    for flags in (["--tensor-parallel", "2"], ["--tensor-parallel", "4", "--speculate", "3"]):
        for got, wanted in zip(answers(*flags), one, strict=True):
            assert got.text == wanted.text
            assert got.logprobs.token_logprobs[1:] == pytest.approx(wanted.logprobs.token_logprobs[1:], abs=1e-4)


@pytest.mark.skipif(bool(os.environ.get("GRAFT_NO_BENCH")), reason="without graft-bench")
def test_bench_of_one_process_and_ranks(tmp_path):
    path = tmp_path / "figures.json"
    subprocess.run([bench_binary(), "parallel", "--shape", DEMO / "base" / "config.json", "--device", "cpu", "--rounds",
                    "2", "--output-tokens", "3", "--batch", "3", "--json", path], check=True, timeout=300,
                   capture_output=True)
    figures = json.loads(path.read_text())
    assert figures["ranks"] == 2 and [row["adapters"] for row in figures["rows"]] == [0, 1, 3]
    for row in figures["rows"]:
        assert len(row["one_tokens_per_second"]) == len(row["ranks_tokens_per_second"]) == 2 and row["ratio"] > 0


@pytest.mark.skipif(bool(os.environ.get("GRAFT_NO_BENCH")), reason="without graft-bench")
def test_bench_of_one_rank_alone(tmp_path):
    path = tmp_path / "figures.json"
    done = subprocess.run([bench_binary(), "step", "--shape", DEMO / "base" / "config.json", "--device", "cpu",
                           "--rank-of", "2", "--batch", "2", "--context", "8", "--steps", "2", "--prefill-tokens", "0",
                           "--prefill-adapters", "1", "--link-us", "5", "--json", path], check=True,
                          timeout=300, capture_output=True, text=True)
    assert "one rank of 2, alone" in done.stdout and "5 us each and a link of 0 GB/s" in done.stdout
    figures = json.loads(path.read_text())
    assert figures["rank"] == {"of": 2, "link_us": 5, "link_gbytes_per_s": 0}
    assert all(row["median_ms"] > 0 for row in figures["decode"])
