"""The command line around the server: exit codes, config files, signals."""

import os
import shutil
import signal
import subprocess
import time

import pytest

from conftest import DEMO, Server, binary


def run(*args, env=None):
    return subprocess.run([binary(), *map(str, args)], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **(env or {})})


@pytest.mark.parametrize(("args", "code", "words"), [
    (["--version"], 0, ""),
    (["serve", "--help"], 0, "--adapters"),
    (["nothing"], 2, ""),
    (["serve", "--nothing"], 2, "--nothing"),
    (["serve", "--port", "99999"], 2, "--port"),
    (["serve", "--model", "nowhere"], 2, "nowhere/config.json"),
    (["serve", "--model", DEMO / "base", "--drain-seconds", "-1"], 2, "--drain-seconds"),
    (["serve", "--model", DEMO / "base", "--connections-max", "0"], 2, "--connections-max")])
def test_exit_codes(args, code, words):
    done = run(*args)
    assert done.returncode == code, done.stderr
    assert words in done.stdout + done.stderr


@pytest.mark.parametrize(("text", "words"), [("port: [1, 2]", "'port' must be one value"),
                                             ("pin: {austen: 1}", "'pin' must be one value or a list of them"),
                                             ("nothing: 1", "unknown key 'nothing'"),
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


def test_a_signal_during_the_start_ends_it(tmp_path):
    first = shutil.copytree(DEMO / "adapters" / "lovecraft", tmp_path / "0")
    for name in map(str, range(1, 1000)):  # more than a second to be read and checked
        shutil.copytree(first, tmp_path / name, copy_function=os.link)
    server = subprocess.Popen([binary(), "serve", "--model", DEMO / "base", "--adapters", tmp_path, "--port", "0",
                               "--read-at-start-gib", "100"], stderr=subprocess.PIPE, text=True)
    assert "loading base" in server.stderr.readline()
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
