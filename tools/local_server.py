"""Servers on this machine, for tests and tools: a port that is free, and the wait until one serves. Python alone."""

import random
import socket
import time
import urllib.request


# Names without files, each of which holds a port for this process until it ends.
_reserved = []


def free_port():
    """A TCP port of 127.0.0.1 at which no process listens and which no other process was given that looked here or by
    base/local_processes.h and still runs. It lies below the range from which Linux takes the ports of outgoing connections:
    one of those could take the port before its server does."""
    for port in random.sample(range(10240, 32768), 200):
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0graft-port-{port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            name.close()
            continue
        _reserved.append(name)
        return port
    raise RuntimeError("no free port between 10240 and 32767")


def is_ready(url):
    """Whether the server at `url` says that it takes requests."""
    try:
        with urllib.request.urlopen(url + "/ready", timeout=5) as reply:
            return reply.status == 200
    except OSError:
        return False


def wait_ready(url, process, timeout_s=120):
    """Until the server at `url` is ready; RuntimeError where its process ends before, or it takes longer."""
    deadline = time.monotonic() + timeout_s
    while not is_ready(url):
        if process.poll() is not None:
            raise RuntimeError(f"{process.args[0]} ended with {process.returncode}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"{process.args[0]} was not ready after {timeout_s} s")
        time.sleep(0.005)


def wait_listening(port, process, timeout_s=120):
    """Until something listens at this machine's `port`, the same way."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 5).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{process.args[0]} does not listen at {port}: {process.returncode}") from None
        time.sleep(0.005)
