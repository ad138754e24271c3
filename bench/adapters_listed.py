#!/usr/bin/env python3
"""How long `graft serve` takes to list many adapters, none of which it reads.

  bench/adapters_listed.py [--binary build/release/graft] [--adapters 10000]

Makes so many PEFT folders (copies of a demo adapter's config and hard links of its weights), starts
the server twice with a registry, once with every folder unknown and once with all of them
remembered, and prints what its log says. The files are warm.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEMO = ROOT / "demo"


def make_folders(folder, count):
    source = DEMO / "adapters" / "austen"
    weights = folder.parent / "weights"
    shutil.copy(source / "adapter_model.safetensors", weights)
    for i in range(count):
        path = folder / f"tenant-{i:05d}"
        path.mkdir(parents=True)
        shutil.copy(source / "adapter_config.json", path)
        os.link(weights, path / "adapter_model.safetensors")


def start(binary, registry, folder):
    command = [binary, "serve", "--model", DEMO / "base", "--adapters", folder, "--port", "0", "--registry",
               registry, "--tune", "read-at-start-gib=0", "--quiet"]
    process = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True)
    listed = ""
    for line in process.stderr:
        if "adapters: " in line:
            listed = line.split("adapters: ")[1].strip()
        if "serving on" in line:
            ready = re.search(r"after ([0-9.]+) s", line).group(1)
            process.send_signal(signal.SIGTERM)
            process.wait()
            return listed, ready
    raise RuntimeError(f"graft ended with {process.wait()}")


def fill_registry(registry, folder):
    """As if every folder had been used once: the hashes are made up, nobody reads what they name."""
    with sqlite3.connect(registry) as database:
        rows = []
        for path in sorted(folder.iterdir()):
            stamp = ""
            for name in ("adapter_config.json", "adapter_model.safetensors"):
                status = (path / name).stat()
                stamp += f"{status.st_size}:{status.st_mtime_ns};"
            rows.append((str(path), stamp, f"{hash(path.name) & 0xffffffffffffffff:064x}", "demo", 16, 1 << 20))
        database.executemany("INSERT OR REPLACE INTO folder VALUES (?, ?, ?, ?, ?, ?)", rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--binary", default=ROOT / "build" / "release" / "graft")
    parser.add_argument("--adapters", type=int, default=10000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work).resolve() / "adapters"
        make_folders(folder, args.adapters)
        registry = pathlib.Path(work) / "registry.db"
        print("unknown:   ", *start(args.binary, registry, folder), "s until it serves")
        fill_registry(registry, folder)
        print("remembered:", *start(args.binary, registry, folder), "s until it serves")


if __name__ == "__main__":
    main()
