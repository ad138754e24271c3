"""`bench/beside_vllm.sh` on the demo's shape, on the CPU: both servers' commands, the client and the table. A script takes
vLLM's place: it checks the command that vLLM would get and becomes a graft server."""

import contextlib
import json
import os
import socketserver
import subprocess
import sys
import threading

import pytest

from conftest import DEMO, ROOT, binary

sys.path.insert(0, str(ROOT / "bench"))
import beside_vllm
from http_load import Ask, Load, figures, run_load

AS_VLLM = """#!{python}
import json, os, sys
words = sys.argv[1:]
assert words[0] == "serve" and "--enable-prefix-caching" in words, words
value = lambda flag: words[words.index(flag) + 1]
flags = ["serve", "--model", words[1], "--model-name", value("--served-model-name"), "--port", value("--port"),
         "--context-tokens-max", value("--max-model-len"), "--sequences-max", value("--max-num-seqs"), "--quiet",
         "--device", "cpu", "--threads", "1", "--pool-gib", "0.1"]
if "--enable-lora" in words:
    assert value("--max-cpu-loras") == "380"
    adapters = os.environ["VLLM_LORA_RESOLVER_CACHE_DIR"]
    config = json.load(open(adapters + "/a0/adapter_config.json"))
    assert config["base_model_name_or_path"] == words[1] and config["target_modules"] == words[-7:]
    flags += ["--adapters", adapters, "--adapters-max", value("--max-loras")]
os.execv({graft!r}, [{graft!r}, *flags])
"""


def beside(tmp_path, **env):
    lengths, stand_in = tmp_path / "lengths.csv", tmp_path / "as_vllm"
    lengths.write_text("prompt_tokens,output_tokens\n300,100\n60,400\n")
    stand_in.write_text(AS_VLLM.format(python=sys.executable, graft=binary()))
    stand_in.chmod(0o755)
    env = {**os.environ, "GRAFT": binary(), "VLLM": str(stand_in), "SHAPE": str(DEMO / "base" / "config.json"),
           "FOLDER": str(tmp_path / "folder"), "OUT": str(tmp_path / "out"), "SCALE": "0.03", "CONTEXT": "512",
           "LENGTHS": str(lengths), "MAX_LORAS": "2 3", "HOST_GIB": "0.2",
           "GRAFT_FLAGS": "--device cpu --threads 1 --pool-gib 0.1", **env}
    return subprocess.run([ROOT / "bench" / "beside_vllm.sh"], env=env, capture_output=True, text=True, timeout=600)


def test_one_table_of_two_servers(tmp_path):
    done = beside(tmp_path, PARTS="base-more many first each-burst")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    rows = [json.loads(line) for line in (tmp_path / "out" / "rows.jsonl").read_text().splitlines()]
    by_server = {server: [row for row in rows if row["server"] == server] for server in ("graft", "vllm")}
    loads = {server: {(row["part"], row["load"]) for row in of} for server, of in by_server.items()}
    assert loads["graft"] == loads["vllm"]
    wanted = {(name, load) for name in ("base-more", "many", "first", "each-burst") for load in beside_vllm.PARTS[name].loads}
    assert loads["graft"] == wanted | {("base-more", "start"), ("first", "start")}
    for row in rows:
        if row["load"] == "start":
            assert row["ready_seconds"] > 0
            continue
        assert row["errors"] == row["cut"] == 0, row["first_error"]
        assert row["requests"] > 0 and row["tokens_per_second"] > row["requests_per_second"] > 0
        for times in ("first_token_ms", "token_ms"):
            assert 0 < row[times]["p50"] <= row[times]["p99"]
        assert (row["cached_share"] > 0.4) == (row["load"] == "conversations")
    assert {row.get("max_loras") for row in by_server["vllm"] if row["part"] == "many"} == {"2", "3"}
    for same in ("requests", "adapters"):  # of both, and of loads that no rate decides
        assert len({row[same] for row in rows if (row["part"], row["load"]) == ("many", "closed 256")}) == 1

    # What ran alone is joined with what ran before.
    alone = beside(tmp_path, PARTS="first", VLLM="")
    assert alone.returncode == 0, alone.stdout[-2000:] + alone.stderr[-2000:]
    lines = [line.split(" | ") for line in alone.stdout.splitlines() if line.startswith("| ")]
    assert [line[1] for line in lines if line[0] == "| many"] == beside_vllm.PARTS["many"].loads
    ratios = [line[5] for line in lines[1:] if line[1] != "start"]
    assert all(float(ratio) > 0 for ratio in ratios) and "Scaled down" in alone.stdout


def test_a_server_that_fails_fails_the_run(tmp_path):
    done = beside(tmp_path, PARTS="base", GRAFT="", VLLM="/bin/false")
    assert done.returncode != 0 and "vllm-base failed" in done.stdout


class Options:
    scale, vocab, lengths, seconds_max = 1, 128256, None, 100


def test_loads_share_no_prompt_and_do_not_change():
    prompts = set()
    for part in ("many", "thousand"):
        loads = beside_vllm.Loads(part, Options)
        for name in ["closed 256", "poisson"]:
            rounds, says = loads.make(name, [{"load": "closed 256", "tokens_per_second": 10000}])
            again, _ = beside_vllm.Loads(part, Options).make(name, [{"load": "closed 256", "tokens_per_second": 5000}])
            asks, fewer = ([chain[0] for load in made for chain in load.chains] for made in (rounds, again))
            assert asks[:len(fewer)] == fewer, "a slower server gets the same requests, if fewer"
            assert {len(ask.prompt) for ask in asks} == {300} and {ask.tokens for ask in asks} == {200}
            prompts |= {tuple(ask.prompt[:16]) for ask in asks}
            popular = sum(ask.model == "a0" for ask in asks) / len(asks)
            expected = 1 / sum(1 / (i + 1) for i in range(loads.adapters))
            assert abs(popular - expected) < 0.05
            assert name != "poisson" or says["rate"] == 0.8 * 10000 / 200
    assert len(prompts) == 2 * (1024 + 0.8 * 10000 / 200 * beside_vllm.POISSON_SECONDS)


@contextlib.contextmanager
def answering(answer):
    """A server that takes one request a connection and sends `answer`, in two pieces."""
    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            self.request.recv(1 << 16)
            self.request.sendall(answer[:len(answer) // 2])
            self.request.sendall(answer[len(answer) // 2:])

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


EVENT = b'data: {"choices": [{"text": "a"}]}\n\n'
USAGE = b'data: {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": %d}}\n\n'


@pytest.mark.parametrize(("answer", "error"), [(3 * EVENT + USAGE % 3 + b"data: [DONE]\n\n", ""),
                                               (EVENT + USAGE % 3 + b"data: [DONE]\n\n", ""),  # tokens may share an event
                                               (2 * EVENT + USAGE % 2 + b"data: [DONE]\n\n", "[DONE]"),
                                               (3 * EVENT + USAGE % 3, "usage"),
                                               (b"HTTP/1.1 503 Service Unavailable\r\n\r\nbusy", "busy"),
                                               (b"", "closed without an answer")])
def test_an_answer_that_is_not_whole_is_an_error(answer, error):
    with answering(answer) as url:
        heard, _ = run_load(url, Load([[Ask("base", [1] * 5, 3)]] * 4, at_once=2), processes=2)
    row = figures([heard])
    assert len(heard) == 4 and error in row["first_error"]
    assert (row["errors"], row["requests"]) == ((4, 0) if error else (0, 4))
