#!/usr/bin/env python3
"""try_program.py PROGRAM DEMO: serves the model of DEMO with its adapters and asks one of them for a completion, and for an
answer in a given form: once of a server, once of a frontend with a runner."""

import json
import os
import subprocess
import sys
import urllib.request

from local_server import free_port, wait_ready


def ask(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return reply.read()


def start(*command):
    # The environment's libraries must not help.
    env = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    return subprocess.Popen([*command, "--log-level", "warn"], env=env)


def complete(port, demo):
    """What one of the adapters says."""
    model = sorted(os.listdir(f"{demo}/adapters"))[0]
    reply = json.loads(ask(f"http://127.0.0.1:{port}/v1/completions",
                           {"model": model, "prompt": "It was", "max_tokens": 8, "temperature": 0}))
    if reply["usage"]["completion_tokens"] < 1:
        sys.exit(f"nothing was said: {reply}")
    words = ["by day", "by night"]
    bound = json.loads(ask(f"http://127.0.0.1:{port}/v1/completions",
                           {"model": model, "prompt": "It was", "structured_outputs": {"choice": words}}))
    if bound["choices"][0]["text"] not in words:
        sys.exit(f"an answer has not its form: {bound}")
    return reply["choices"][0]["text"]


def stop(process):
    process.terminate()
    if process.wait(60) != 0:
        sys.exit(f"{' '.join(process.args)} ended with {process.returncode}")


def main():
    program, demo = sys.argv[1:]
    model = ["--model", f"{demo}/base", "--adapters", f"{demo}/adapters"]
    port, rpc_port, frontend_port = free_port(), free_port(), free_port()
    alone = start(program, "serve", *model, "--port", str(port))
    wait_ready(f"http://127.0.0.1:{port}", alone)
    text = complete(port, demo)
    stop(alone)
    runner = start(program, "runner", *model, "--rpc-port", str(rpc_port))
    frontend = start(program, "frontend", "--model", f"{demo}/base", "--runners", f"127.0.0.1:{rpc_port}", "--port",
                     str(frontend_port))
    wait_ready(f"http://127.0.0.1:{frontend_port}", frontend)
    if complete(frontend_port, demo) != text:
        sys.exit("a frontend and a runner say something else than one server")
    stop(frontend)
    stop(runner)
    print(f"{program} serves, alone and by a runner: {text!r}")


if __name__ == "__main__":
    main()
