#!/usr/bin/env python3
"""try_units.py UNIT...: starts the command of each installed systemd unit as its manager would, all at once: waits until
each says that it serves, has those that can be reloaded read their settings anew, stops them. Environment variables may
move ports."""

import os
import pathlib
import shlex
import signal
import socket
import subprocess
import sys
import tempfile


class Unit:
    """The command of a unit's file, and the socket that its process tells its state to."""

    def __init__(self, name, folder):
        self.name = name
        lines = pathlib.Path(f"/lib/systemd/system/{name}.service").read_text().splitlines()
        settings = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
        if settings["Type"] != "notify":
            sys.exit(f"{name}: its process tells its state; the unit does not wait for it")
        self.can_reload = settings.get("ExecReload") == "/bin/kill -HUP $MAINPID"
        self.command = shlex.split(settings["ExecStart"])
        path = str(folder / name)
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.bind(path)
        self.manager.settimeout(120)
        self.process = subprocess.Popen(self.command, env={**os.environ, "NOTIFY_SOCKET": path})

    def hear(self, state):
        try:
            heard = self.manager.recv(4096).decode()
        except TimeoutError:
            heard = "nothing for 120 s"
        if not heard.startswith(state):
            sys.exit(f"{self.name} was to say {state}, and said: {heard}")

    def reload(self):
        if not self.can_reload:
            return
        self.process.send_signal(signal.SIGHUP)
        self.hear("RELOADING=1")
        self.hear("READY=1")

    def stop(self):
        self.process.terminate()
        self.hear("STOPPING=1")
        if self.process.wait(120) != 0:
            sys.exit(f"{self.name} ended with {self.process.returncode}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        units = []
        try:
            for name in sys.argv[1:]:
                units.append(Unit(name, pathlib.Path(folder)))
                units[-1].hear("READY=1")
            for unit in units:
                unit.reload()
            for unit in reversed(units):
                unit.stop()
        finally:
            for unit in units:
                unit.process.kill()
    print(f"{', '.join(sys.argv[1:])}: started, reloaded and stopped")


if __name__ == "__main__":
    main()
