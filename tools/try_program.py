#!/usr/bin/env python3
"""try_program.py PROGRAM DEMO: serves the model of DEMO with its adapters and asks one of them for a completion."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request

READY_SECONDS = 120


def ask(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return reply.read()


def main():
    program, demo = sys.argv[1:]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # The environment's libraries must not help.
    env = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    process = subprocess.Popen([program, "serve", "--model", f"{demo}/base", "--adapters", f"{demo}/adapters", "--port",
                                str(port), "--log-level", "warn"], env=env)
    try:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            if process.poll() is not None:
                sys.exit(f"{program} ended with {process.returncode}; its message is above")
            if time.monotonic() > deadline:
                sys.exit(f"{program} was not ready after {READY_SECONDS} s")
            try:
                ask(f"http://127.0.0.1:{port}/ready")
                break
            except OSError:
                time.sleep(0.05)
        model = sorted(os.listdir(f"{demo}/adapters"))[0]
        reply = json.loads(ask(f"http://127.0.0.1:{port}/v1/completions",
                               {"model": model, "prompt": "It was", "max_tokens": 8}))
        if reply["usage"]["completion_tokens"] < 1:
            sys.exit(f"{program} said nothing: {reply}")
        print(f"{program} serves; {model}: {reply['choices'][0]['text']!r}")
    finally:
        process.terminate()
        code = process.wait(60)
    return code


if __name__ == "__main__":
    sys.exit(main())
