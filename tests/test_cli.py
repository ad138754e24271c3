"""The command line around the server: exit codes, config files, signals."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

from conftest import DEMO, Server, bench_binary, binary, free_port


def run(*args, env=None, program=binary):
    return subprocess.run([program(), *map(str, args)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **(env or {})})


def run_bench(*args, env=None):
    return run(*args, env=env, program=bench_binary)


@pytest.mark.parametrize(("args", "code", "words"), [
    (["--version"], 0, ""),
    (["serve", "--help"], 0, "--adapters"),
    (["help", "serve"], 0, "--adapters"),
    ([], 2, "which command?"),
    (["nothing"], 2, "unknown command 'nothing'"),
    (["serv"], 2, "did you mean 'serve'?"),
    (["bench", "step", "--batch", "1"], 2, "write graft-bench instead; make build-bench builds it"),
    (["help", "bench"], 2, "write graft-bench instead"),
    (["serve", "--nothing"], 2, "--nothing"),
    (["serve", "--adpaters", "x"], 2, "did you mean --adapters?"),
    (["adapters", "inspect"], 2, "which paths?"),
    (["serve", "--port", "99999"], 2, "--port"),
    (["serve", "--model", "nowhere"], 2, "there is no nowhere/config.json: a model is a folder on this machine"),
    (["serve", "--model", DEMO / "base", "--adapters", DEMO / "adapters" / "austen"], 2, "give the folder above it"),
    (["adapters", "list", "--model", DEMO / "base", "--adapters", DEMO / "adapters" / "austen"], 2, "itself an adapter"),
    (["serve", "--max-model-len", "4096"], 2, "unknown flag --max-model-len: use --context-tokens-max"),
    (["serve", DEMO / "base"], 2, "a model is named by --model DIR"),
    (["serve", "--model", DEMO / "adapters" / "austen"], 2,
     "austen is an adapter, not a model: give its base (graft-demo) as the model, and the folder above it with --adapters"),
    (["learn", "x", "--model", DEMO / "adapters" / "austen"], 2, "is an adapter, not a model"),
    (["serve", "--model", DEMO / "base", "--drain-seconds", "-1"], 2, "--drain-seconds"),
    (["serve", "--model", DEMO / "base", "--connections-max", "0"], 2, "--connections-max")])
def test_exit_codes(args, code, words):
    done = run(*args)
    assert done.returncode == code, done.stderr
    assert words in done.stdout + done.stderr


@pytest.mark.parametrize(("args", "code", "words"), [
    (["--version"], 0, ""),
    (["step", "--help"], 0, "--ablations"),
    (["help", "step"], 0, "--ablations"),
    (["stpe"], 2, "graft-bench: unknown command 'stpe'; did you mean 'step'?"),
    (["step", "--nothing"], 2, "see graft-bench step --help")])
def test_exit_codes_of_benches(args, code, words):
    done = run_bench(*args)
    assert done.returncode == code, done.stderr
    assert words in done.stdout + done.stderr


@pytest.mark.parametrize(("command", "wrong", "words"), [
    ("serve", "port", "Address already in use; choose another port or host"),
    ("serve", "adapters", "nowhere"),
    ("serve", "api-keys", "broken"),
    ("serve", "api-keys missing", "nowhere"),
    ("serve", "tls-cert", "nowhere"),
    ("runner", "rpc-port", "Address already in use; choose another port or host"),
    ("runner", "adapters", "nowhere"),
    ("runner", "etcd", "etcd"),
    ("frontend", "port", "Address already in use; choose another port or host"),
    ("frontend", "api-keys", "broken")])
def test_what_a_large_model_would_be_loaded_in_vain_for_is_looked_at_first(tmp_path, command, wrong, words):
    broken = tmp_path / "broken.json"
    broken.write_text('[{"key": "a"}]')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        given = {"port": port, "rpc-port": port, "adapters": "nowhere", "api-keys": broken, "api-keys missing": "nowhere",
                 "tls-cert": "nowhere", "etcd": f"127.0.0.1:{free_port()}"}[wrong]
        more = {"tls-cert": ["--tls-key", "nowhere"]}.get(wrong, [])
        more += ["--runners", "127.0.0.1:1"] if command == "frontend" else []
        done = run(command, "--model", DEMO / "base", f"--{wrong.split()[0]}", given, *more)
    assert done.returncode != 0 and words in done.stderr and "loading" not in done.stderr, done.stderr


@pytest.mark.parametrize(("command", "args", "words"), [
    ("serve", ["--source", "hub=hf:"], "--source needs --allow"),
    ("serve", ["--allow", "hub/*"], "name one by --source"),
    ("serve", ["--source", "hub=ftp://x", "--allow", "*"], "is of no kind that is known"),
    ("serve", ["--api-keys", "nowhere"], "nowhere"),
    ("serve", ["--port", "TAKEN"], "Address already in use"),
    ("runner", ["--source", "hub=hf:", "--allow", "*"], "--source is for runners of a cluster"),
    ("runner", ["--etcd", "127.0.0.1:1", "--source", "hub=hf:"], "--source needs --allow"),
    ("runner", ["--rpc-port", "TAKEN"], "Address already in use")])
def test_what_a_model_would_be_fetched_in_vain_for_is_looked_at_first(tmp_path, command, args, words):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        args = [str(taken.getsockname()[1]) if arg == "TAKEN" else arg for arg in args]
        # Nothing listens at the hub's address.
        done = run(command, "--model", "acme/model", "--log-format", "json", *args,
                   env={"HF_ENDPOINT": f"http://127.0.0.1:{free_port()}", "HF_HOME": str(tmp_path)})
    assert done.returncode != 0 and words in logged(done.stderr)[-1][1], done.stderr
    assert "could not be fetched" not in done.stderr, done.stderr


@pytest.mark.parametrize(("args", "words"), [
    (["--adapters", DEMO / "adapters", "--adapter", "austen", "--adapter", "dyole"],
     "there is no adapter 'dyole'; did you mean 'doyle'?"),
    (["--adapter", "austen"], "there is no adapter 'austen'; --adapters DIR names their folder"),
    (["--pool-gib", "0.0001"], "raise --pool-gib or lower --context-tokens-max")])
def test_generate_tells_before_the_weights_are_read(args, words):
    done = run("generate", "--model", DEMO / "base", "--prompt", "It was", *args)
    assert done.returncode != 0 and words in done.stderr and "loading" not in done.stderr, done.stderr


def test_a_misspelt_variable_is_told():
    done = run("serve", "--model", "nowhere", env={"GRAFT_STEP_TOKEN_MAX": "3", "GRAFT_MAX_NUM_SEQS": "8"})
    assert "warning the variable GRAFT_STEP_TOKEN_MAX sets nothing: did you mean GRAFT_STEP_TOKENS_MAX?" in done.stderr
    assert "GRAFT_MAX_NUM_SEQS sets nothing: use --sequences-max" in done.stderr
    done = run("cluster", "status", "--folder", "nowhere", env={"GRAFT_ETDC": "a:1"})
    assert "GRAFT_ETDC sets nothing: did you mean GRAFT_ETCD?" in done.stderr, done.stderr


def test_variables_of_our_tools_are_no_misspelt_settings():
    """Those that tests, benches and tools set."""
    names = set()
    for folder in ("tests", "tools", "bench"):
        for path in (DEMO.parent / folder).rglob("*.py"):
            names |= set(re.findall(r"""environ(?:\.get\(|\[)["'](GRAFT_[A-Z_0-9]+)""", path.read_text()))
    names |= {"GRAFT_SOURCE_DIR", "GRAFT_GPU_FAMILY", "GRAFT_LAUNCHER", "GRAFT_HOSTILE_SEEDS", "GRAFT_RANDOM_SEEDS"}
    names |= {"GRAFT_RANKS_SHARE_GPU", "GRAFT_PEERS_OFF"}
    assert {"GRAFT_BINARY", "GRAFT_LONG_TESTS"} <= names
    # Some of them are settings, whose values must do no harm: these are not asked about.
    done = run("adapters", "list", "--model", DEMO / "base", "--adapters", DEMO / "adapters",
               env={name: "1" for name in names if name not in ("GRAFT_DEVICE", "GRAFT_THREADS")})
    assert done.returncode == 0 and "sets nothing" not in done.stderr, done.stderr


def logged(text):
    """Each line is an object with time, level and message."""
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines and all({"time", "level", "message"} <= line.keys() for line in lines)
    return [(line["level"], line["message"]) for line in lines]


def test_a_log_of_json_is_all_json(tmp_path):
    server = subprocess.Popen([binary(), "serve", "--model", DEMO / "base", "--adapters", DEMO / "adapters", "--port", "0",
                               "--log-format", "json"], stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "GRAFT_STEP_TOKEN_MAX": "1"})
    lines = []
    while not lines or "serving on" not in lines[-1]:
        lines.append(server.stderr.readline())
        assert lines[-1], lines
    server.send_signal(signal.SIGTERM)
    said = logged("".join(lines) + server.stderr.read())
    assert server.wait(60) == 0
    assert ("info", "loading base 100 %") in said
    assert any(level == "warning" and "GRAFT_STEP_TOKEN_MAX" in message for level, message in said), said
    keys = tmp_path / "keys.json"
    keys.write_text("{}")
    for args, words in ((["--model", DEMO / "base", "--api-keys", keys], "keys.json"),
                        (["--model", "nowhere"], "nowhere/config.json")):
        done = run("serve", "--log-format", "json", *args)
        said = logged(done.stderr)
        assert done.returncode == 2 and said[-1][0] == "error" and words in said[-1][1], said


def test_progress_in_a_log_has_its_time():
    done = run("serve", "--model", DEMO / "base", "--port", "0", "--pin", "nobody", "--adapters", DEMO / "adapters")
    lines = [line for line in done.stderr.splitlines() if "loading base" in line]
    assert lines and all(re.match(r"\d{4}-\d\d-\d\dT[0-9:.+]+ info loading base \d+ %$", line) for line in lines), lines


def test_names_in_keys_that_are_not_there_are_told(tmp_path):
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps([{"key": "k", "tenant": "t", "adapters": ["autsen", "austen", "base", "do*", "ft:base:x:1"]}]))
    with Server("--api-keys", keys) as server:
        assert server.says("a key of the tenant 't' names the adapter 'autsen', which is not there; did it mean 'austen'?")
        keys.write_text(json.dumps([{"key": "k", "tenant": "t", "adapters": ["*"], "tenant_adapters": ["aus*", "doyl"]}]))
        server.process.send_signal(signal.SIGHUP)
        assert server.says("names the adapter 'doyl'")


def test_a_repository_of_the_hubs_cache_is_served_by_its_name(tmp_path):
    repository = tmp_path / "models--demo--base"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc")
    (repository / "snapshots").mkdir()
    shutil.copytree(DEMO / "base", repository / "snapshots" / "abc")
    for model in (repository, repository / "snapshots" / "abc"):
        with Server(model=model) as server:
            assert "demo/base" in [one.id for one in server.client().models.list()]
            assert server.client().completions.create(model="demo/base", prompt="It", max_tokens=1).usage.completion_tokens
    done = run("generate", "--model", repository, "--prompt", "It", "--max-tokens", "1", "--quiet")
    assert done.returncode == 0, done.stderr


def test_odd_generation_defaults_are_told_and_ignored(tmp_path):
    shutil.copytree(DEMO / "base", tmp_path / "base")
    (tmp_path / "base" / "generation_config.json").write_text(json.dumps(
        {"top_p": 0, "repetition_penalty": 0, "max_new_tokens": 0, "temperature": 0.5, "eos_token_id": [1, 99999]}))
    with Server(model=tmp_path / "base") as server:
        log, deadline = "", time.monotonic() + 30
        while "serving on" not in log and time.monotonic() < deadline:
            log += server.log()
            time.sleep(0.02)
        told = [line for line in log.splitlines() if "generation_config.json: " in line]
        assert len(told) == 4 and all("it is ignored" in line for line in told), log
        for name in ("top_p", "repetition_penalty", "max_new_tokens", "99999"):
            assert any(name in line for line in told), name
        assert server.client().completions.create(model="base", prompt="It", max_tokens=1).usage.completion_tokens == 1


def test_settings_that_seldom_matter_are_keys_of_one_flag(tmp_path):
    config = tmp_path / "graft.yaml"
    config.write_text("tune:\n  turn_ms: 5\n  run-ahead: false\nstep-ms-max: 40\n")
    with Server("--config", config, "--tune", "cold-start=layerwise,page-tokens=32", "--prefill-chunk-max", "32",
                env={"GRAFT_TUNE": "lora=after,batch-share=0.5", "GRAFT_READ_AT_START_GIB": "0"}) as server:
        assert server.client().completions.create(model="austen", prompt="It", max_tokens=1).usage.completion_tokens == 1
        log = server.log()
        assert " x 32 tokens" in log
        for note in ("--prefill-chunk-max is now --tune prefill-chunk-max=32",
                     "GRAFT_READ_AT_START_GIB is now GRAFT_TUNE=read-at-start-gib=0",
                     f"{config}: 'step-ms-max' is now 'step-ms-max: 40' under 'tune'"):
            assert log.count(note) == 1, note
        assert server.metric("graft_cold_starts_total", 'way="layerwise"') == 1
    for args, words in (("--turn-ms 5 --tune turn-ms=6", "--turn-ms is 5 and --tune turn-ms is 6; keep one of them"),
                        ("--tune turn-m=5", "--tune has no key 'turn-m'; did you mean 'turn-ms'?"),
                        ("--cold-start layerwise", "--tune cold-start=layerwise"),
                        ("--pool static", "--pool was removed"), ("--lora-kernel bmm", "--lora-kernel was removed")):
        done = run("serve", *args.split())
        assert done.returncode == 2 and words in done.stderr, done.stderr


@pytest.mark.parametrize(("text", "words"), [("port: [1, 2]", "'port' must be one value"),
                                             ("pin: {austen: 1}", "'pin' must be one value or a list of them"),
                                             ("nothing: 1", "unknown key 'nothing'"),
                                             ("step_tokens_max: 16\nstep-tokens-max: 32", "'step-tokens-max' is there twice"),
                                             ("api-keys: ''", "'api-keys' is empty"),
                                             ("- 1", "one mapping of flag names to values")])
def test_a_wrong_config_file_is_named(tmp_path, text, words):
    config = tmp_path / "graft.yaml"
    config.write_text(text)
    done = run("serve", "--config", config)
    assert done.returncode == 2 and str(config) in done.stderr and words in done.stderr


def test_lists_in_a_config_file_and_in_the_environment(tmp_path):
    config = tmp_path / "graft.yaml"
    config.write_text("pin: [austen, nobody]")
    command = ["generate", "--model", DEMO / "base", "--adapters", DEMO / "adapters", "--prompt", "It", "--max-tokens",
               "1", "--quiet"]
    assert "nobody" in run("serve", *command[1:5], "--config", config).stderr
    assert "nobody" in run("serve", *command[1:5], env={"GRAFT_PIN": "[austen,nobody]"}).stderr
    config.write_text("priority: [austen=1, nobody=2]")
    assert "--priority nobody=2" in run("serve", *command[1:5], "--config", config).stderr
    assert "--priority nobody=2" in run("serve", *command[1:5], env={"GRAFT_PRIORITY": "[austen=1,nobody=2]"}).stderr
    config.write_text("adapter: [austen, doyle]")
    both = run(*command, "--config", config)
    assert both.returncode == 0, both.stderr
    assert both.stdout == run(*command, "--adapter", "austen", "--adapter", "doyle").stdout


@pytest.mark.parametrize(("args", "env", "where"), [(["--api-keys", ""], {}, "--api-keys is empty"),
                                                    (["--api-keys="], {}, "--api-keys is empty"),
                                                    ([], {"GRAFT_API_KEYS": ""}, "GRAFT_API_KEYS is empty"),
                                                    ([], {"GRAFT_ADMIN_KEY": ""}, "GRAFT_ADMIN_KEY is empty")])
def test_an_empty_setting_is_refused(args, env, where):
    """Without a key everybody is served: that must be meant."""
    done = run("serve", "--model", DEMO / "base", *args, env=env)
    assert done.returncode == 2 and where in done.stderr, done.stderr


def test_the_start_says_whether_keys_are_on(tmp_path):
    with Server("--threads", "1") as server:
        assert server.stop() == 0
        log = server.log()
    assert "API keys: off" in log and " of weights, 1 thread\n" in log, log
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps([{"key": "a-secret", "tenant": "a", "adapters": ["*"]}]))
    with Server("--api-keys", keys) as server:
        assert server.says(f"API keys: on, those of {keys}")


def test_a_service_of_kubernetes_named_graft_stops_nothing():
    env = {"GRAFT_PORT": "tcp://10.0.0.1:8131", "GRAFT_PORT_8131_TCP": "tcp://10.0.0.1:8131",
           "GRAFT_SERVICE_HOST": "10.0.0.1", "GRAFT_SERVICE_PORT": "8131"}
    done = run("serve", "--model", "nowhere", env=env)
    assert "GRAFT_PORT is 'tcp://10.0.0.1:8131'" in done.stderr and "nowhere/config.json" in done.stderr
    done = run("serve", "--model", "nowhere", env={"GRAFT_PORT": "eighty"})
    assert done.returncode == 2 and "GRAFT_PORT must be a whole number" in done.stderr


def test_a_context_beyond_the_models_is_cut_and_said():
    done = run("generate", "--model", DEMO / "base", "--prompt", "It", "--max-tokens", "1", "--context-tokens-max",
               "9999", "--quiet")
    assert done.returncode == 0, done.stderr
    assert "--context-tokens-max 9999 is more than the model's own" in done.stderr


def test_a_bench_has_variables_of_its_own():
    done = run_bench("step", "--shape", "nowhere.json", env={"GRAFT_ADAPTERS": "/srv/adapters"})
    assert done.returncode == 2 and "nowhere.json" in done.stderr, done.stderr
    done = run_bench("step", "--shape", "nowhere.json", env={"GRAFT_BENCH_ADAPTERS": "/srv/adapters"})
    assert done.returncode == 2 and "GRAFT_BENCH_ADAPTERS must be a whole number" in done.stderr


@pytest.mark.parametrize(("changes", "args", "words"), [
    ({"max_position_embeddings": 1_000_000}, ["--batch", "2048", "--context", "999000"],
     "2 x keys and values of a server (--batch, --context, --prefill-tokens)"),
    ({}, ["--context", "100000"], "lower --context"),
    ({"num_hidden_layers": 1024, "intermediate_size": 500_000}, ["--prefill-tokens", "512"],
     "weights in bf16 (--dtype)")])
def test_a_bench_beyond_the_memory_says_what_to_lower(tmp_path, changes, args, words):
    """Before, such a bench ended by a failed check, or was killed for its memory."""
    config = json.loads((DEMO / "base" / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **changes}))
    done = run_bench("step", "--device", "cpu", "--shape", tmp_path / "config.json", *args)
    assert done.returncode in (1, 2) and words in done.stderr, done.stderr


def test_bench_serve_needs_no_folder_beside_it(tmp_path):
    done = subprocess.run([bench_binary(), "serve", "--shape", DEMO / "base" / "config.json", "--device", "cpu",
                           "--batch", "2", "--adapters", "2", "--prompt-tokens", "4", "--output-tokens", "4",
                           "--context-tokens-max", "64", "--rounds", "1", "--skip-single", "--skip-base-rows"],
                          cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "base_http" in done.stdout


def test_a_signal_during_the_start_ends_it(tmp_path):
    first = shutil.copytree(DEMO / "adapters" / "lovecraft", tmp_path / "0")
    for name in map(str, range(1, 1000)):  # more than a second to be read and checked
        shutil.copytree(first, tmp_path / name, copy_function=os.link)
    server = subprocess.Popen([binary(), "serve", "--model", DEMO / "base", "--adapters", tmp_path, "--port", "0",
                               "--tune", "read-at-start-gib=100"], stderr=subprocess.PIPE, text=True)
    while "loading base" not in server.stderr.readline():
        assert server.poll() is None
    server.send_signal(signal.SIGTERM)
    assert server.wait(60) == 128 + signal.SIGTERM
    assert "stopped before serving" in server.stderr.read()


def test_a_second_signal_waits_for_nobody():
    with Server("--drain-seconds", "600") as server:
        endless = server.client().completions.create(model="base", prompt="It was", max_tokens=1000, stream=True,
                                                     extra_body={"ignore_eos": True}, n=64)
        next(iter(endless))
        server.process.send_signal(signal.SIGTERM)
        time.sleep(1.2)  # sooner it would be one and the same
        assert server.process.poll() is None, "it waits for 64 answers of 1000 tokens"
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 128 + signal.SIGTERM


def test_adapters_that_cannot_be_looked_into_are_refused_and_not_passed_over(tmp_path):
    shutil.copytree(DEMO / "adapters" / "austen", tmp_path / "folder" / "austen")
    looping = tmp_path / "folder" / "looping"
    looping.mkdir()
    (looping / "adapter_config.json").symlink_to("adapter_config.json")
    (tmp_path / "folder" / "outside").symlink_to(DEMO / "adapters" / "wells")
    command = ["--model", DEMO / "base", "--adapters", tmp_path / "folder"]
    listed = run("adapters", "list", *command).stdout
    assert len(listed.splitlines()) == 4 and listed.count("refused: ") == 2, listed
    verified = run("adapters", "verify", *command)
    assert verified.returncode == 1 and "2 of 3 adapters cannot be served" in verified.stderr
    assert "1 of 3" in run("adapters", "verify", *command, "--adapters-root", DEMO / "adapters").stderr


def test_adapters_whose_names_no_request_could_give_are_refused_and_speak_to_no_terminal(tmp_path):
    shutil.copytree(DEMO / "adapters" / "austen", tmp_path / "folder" / "ok\n\x1b[31m")
    command = ["--model", DEMO / "base", "--adapters", tmp_path / "folder"]
    verified = run("adapters", "verify", *command)
    for shown in (run("adapters", "list", *command).stdout, verified.stdout):
        assert "an adapter's name has 1 to 200 letters" in shown and "\x1b" not in shown, shown
        assert "ok\\n\\x1b[31m" in shown, "as in the log"
    assert verified.returncode == 1 and "1 of 1 adapters cannot be served" in verified.stderr
