#!/usr/bin/env python3
"""clang-tidy over every source file of a build folder, two at a time, skipping what already passed.

A file passed if its text, every header that it includes from src/ and .clang-tidy are what they were
then. CUDA sources are left out: clang-tidy 14 does not know CUDA 13.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def digest(paths):
    sha = hashlib.sha256()
    for path in sorted(paths):
        with open(path, "rb") as file:
            sha.update(file.read())
    return sha.hexdigest()


def included(path, seen):
    """Adds `path` and every header of src/ that it includes, directly or not, to `seen`."""
    if path in seen:
        return seen
    seen.add(path)
    with open(path, errors="replace") as file:
        for name in re.findall(r'^\s*#include "([^"]+)"', file.read(), re.MULTILINE):
            header = os.path.join(ROOT, "src", name)
            if os.path.exists(header):
                included(header, seen)
    return seen


def lint(build, path):
    done = subprocess.run(["clang-tidy", "-quiet", "-p", build,
                           "--extra-arg=-Wno-unknown-warning-option",
                           "--extra-arg=-Wno-unused-command-line-argument", path], text=True, cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return path, done.returncode, done.stdout


def main():
    build = sys.argv[1]
    with open(os.path.join(ROOT, build, "compile_commands.json")) as file:
        commands = json.load(file)
    sources = sorted({c["file"] for c in commands
                      if "/src/" in c["file"] and not c["file"].endswith(("_test.cc", "_cpu.cc", ".cu"))
                      and "/build/" not in c["file"]})
    config = os.path.join(ROOT, ".clang-tidy")
    stamps = os.path.join(ROOT, "build", "lint")
    os.makedirs(stamps, exist_ok=True)
    stamp = {path: os.path.join(stamps, hashlib.sha256(
        (digest([config, *included(path, set())]) + path).encode()).hexdigest()) for path in sources}
    todo = [path for path in sources if not os.path.exists(stamp[path])]
    print(f"{len(todo)} of {len(sources)} files to check")
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, code, output in pool.map(lambda p: lint(build, p), todo):
            if code == 0:
                open(stamp[path], "w").close()
            else:
                failed += 1
                print(output)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
