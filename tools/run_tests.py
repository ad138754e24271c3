#!/usr/bin/env python3
"""Runs the checks of the project, stage by stage; `make test` calls it, `make test-all` with --all.

docs/checks.md says which stage checks what. Stages can be named on the command line (make test STAGES="tidy
unit"). Each prints its time; output of a stage is kept in build/logs/ and shown where it failed. The last line
counts passed and failed checks. Stages of one row run side by side: they wait for different things.
"""

import concurrent.futures
import os
import re
import subprocess
import sys
import threading
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOGS = os.path.join(ROOT, "build", "logs")

# Threaded programs worth TSan's time; the slow ones to build are left to test-all.
TSAN_TESTS = ["base_test", "request_test", "cache_test", "engine_thread_test", "adapter_catalog_test",
              "registry_test", "open_load_test"]
TSAN_SLOW_TESTS = ["cpu_assist_test", "server_api_test", "server_test"]
FUZZ_SECONDS = 40


def run(command, log, env=None):
    """Runs a shell command, keeps its output in `log` (appending), returns (exit code, output)."""
    done = subprocess.run(command, shell=True, cwd=ROOT, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, env={**os.environ, **(env or {})}, errors="replace")
    with open(log, "a") as file:
        file.write(f"$ {command}\n{done.stdout}\n")
    return done.returncode, done.stdout


def build(preset, targets, log):
    code, _ = run(f"tools/build.sh {preset} '{' '.join(targets)}'", log)
    return code == 0


def count_ctest(output):
    match = re.search(r"(\d+)% tests passed, (\d+) tests? failed out of (\d+)", output)
    if not match:
        return 0, 1
    failed = int(match.group(2))
    return int(match.group(3)) - failed, failed


def ctest(preset, log, only=""):
    # Sanitizers' verdicts must fail the test, whatever it catches.
    env = {"ASAN_OPTIONS": "abort_on_error=1:detect_stack_use_after_return=1",
           "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
           "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"}
    _, output = run(f"ctest --test-dir build/{preset} -j2 --output-on-failure --no-tests=error {only}",
                    log, env)
    return count_ctest(output)


def stage_tidy(log):
    """Layers, sizes, format: seconds."""
    formatter = "build/venv/bin/clang-format --dry-run -Werror"
    results = [run("python3 tools/tidy.py", log)[0],
               run(f"git ls-files 'src/*.h' 'src/*.cc' 'src/*.cu' 'src/*.cuh' | xargs {formatter}", log)[0]]
    return results.count(0), len(results) - results.count(0)


def stage_build(log):
    """Everything under ASan and UBSan."""
    ok = build("dev", ["all"], log)
    return int(ok), int(not ok)


def say_what_was_skipped(preset):
    """Tests of the CUDA code are compiled everywhere and run where there is a GPU."""
    with open(f"{ROOT}/build/{preset}/Testing/Temporary/LastTest.log", errors="replace") as file:
        programs = file.read().split(" Testing: ")[1:]
    for reason in ("this machine shows no GPU", "built without the CUDA backend"):
        num_skipped = sum(reason in program for program in programs)
        if num_skipped:
            print(f"   {reason}: {num_skipped} programs skipped their tests of CUDA code", flush=True)


def stage_unit(log):
    """Every test program, and the fuzzers' corpora."""
    results = ctest("dev", log)
    say_what_was_skipped("dev")
    return results


def pytest(preset, log):
    code, output = run("build/venv/bin/python -m pytest -q tests --durations=5", log,
                       {"GRAFT_BINARY": os.path.join(ROOT, "build", preset, "graft")})
    passed = re.search(r"(\d+) passed", output)
    failed = re.search(r"(\d+) (?:failed|error)", output)
    num_failed = int(failed.group(1)) if failed else int(code != 0)
    return (int(passed.group(1)) if passed else 0), num_failed


def stage_program(log):
    """The whole program, under ASan and UBSan, and the official client."""
    return pytest("dev", log)


def stage_release(log):
    """The same with the program as operators run it."""
    if not build("release", ["graft"], log):
        return 0, 1
    return pytest("release", log)


def stage_isa(log):
    """No function compiled for AVX leaks into code that older machines run."""
    code, _ = run("tools/check_isa_symbols.sh build/dev", log)
    return int(code == 0), int(code != 0)


def tsan(tests, log):
    if not build("tsan", tests, log):
        return 0, 1
    return ctest("tsan", log, f"-R '^({'|'.join(tests)})$'")


def stage_tsan(log):
    """Threaded tests under TSan."""
    return tsan(TSAN_TESTS, log)


def stage_tsan_slow(log):
    """Those that take more of the program with them."""
    return tsan(TSAN_SLOW_TESTS, log)


def stage_alone(log):
    """Every file and every header compiled by itself; the kernels' tests under sanitizers."""
    if not build("alone", ["all"], log):
        return 0, 1
    passed, failed = ctest("alone", log, "-R '^kernels_test'")
    return passed + 1, failed


def stage_cuda(log):
    """All CUDA code, compiled in full, with its tests and benches."""
    if run("command -v nvcc || test -x /usr/local/cuda/bin/nvcc", log)[0] != 0:
        print("   no nvcc: CUDA code is not compiled here", flush=True)
        return 1, 0
    ok = build("gpu", ["all"], log)
    return int(ok), int(not ok)


def stage_dist(log):
    """The archive for other machines, started once from an empty folder."""
    code, _ = run("tools/dist.sh", log)
    return int(code == 0), int(code != 0)


def stage_deb(log):
    """The Debian package, installed and served from."""
    code, _ = run("tools/deb.sh && tools/try_deb.sh", log)
    return int(code == 0), int(code != 0)


def fuzz(name, log):
    seeds = f"tests/fuzz_corpus/{name}"
    corpus = f"build/fuzz/corpus/{name}"
    os.makedirs(f"{ROOT}/{corpus}", exist_ok=True)
    seeds = seeds if os.path.isdir(f"{ROOT}/{seeds}") else ""
    return run(f"build/fuzz/{name} -max_total_time={FUZZ_SECONDS} -rss_limit_mb=2048 "
               f"-timeout=20 -artifact_prefix=build/fuzz/ {corpus} {seeds}", log)[0]


def stage_fuzz(log):
    """libFuzzer: new inputs."""
    if not build("fuzz", ["fuzzers"], log):
        return 0, 1
    names = sorted(name for name in os.listdir(f"{ROOT}/build/fuzz") if name.endswith("_fuzz"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        codes = list(pool.map(lambda name: fuzz(name, log), names))
    return codes.count(0), len(codes) - codes.count(0) + (not codes)


def stage_lint(log):
    """clang-tidy over what changed since it last passed."""
    code, _ = run("tools/build.sh alone help && python3 tools/lint.py build/alone", log)
    return int(code == 0), int(code != 0)


STAGES = {"tidy": stage_tidy, "build": stage_build, "unit": stage_unit, "program": stage_program,
          "isa": stage_isa, "tsan": stage_tsan, "release": stage_release, "tsan_slow": stage_tsan_slow,
          "alone": stage_alone, "cuda": stage_cuda, "dist": stage_dist, "deb": stage_deb, "fuzz": stage_fuzz,
          "lint": stage_lint}
# In this order; those of one row at once.
TEST = [["tidy"], ["build"], ["program", "unit"], ["isa"], ["tsan"]]
TEST_ALL = TEST + [["release"], ["tsan_slow"], ["alone"], ["lint"], ["cuda"], ["dist"], ["deb"], ["fuzz"]]


class Results:
    """Counts and prints what the stages bring; any thread."""

    def __init__(self):
        self.lock = threading.Lock()
        self.passed = 0
        self.failed = 0
        self.failed_stages = set()

    def run(self, name):
        log = os.path.join(LOGS, f"{name}.log")
        open(log, "w").close()
        with self.lock:
            print(f"== {name}: {(STAGES[name].__doc__ or name).splitlines()[0]}", flush=True)
        start = time.monotonic()
        try:
            passed, failed = STAGES[name](log)
        except Exception:  # a stage that breaks has failed
            passed, failed = 0, 1
            with open(log, "a") as file:
                file.write(traceback.format_exc())
        with self.lock:
            print(f"   {name}: {passed} passed, {failed} failed, {time.monotonic() - start:.0f} s", flush=True)
            if failed:
                with open(log, errors="replace") as file:
                    print("".join(file.readlines()[-150:]), flush=True)
                self.failed_stages.add(name)
            self.passed += passed
            self.failed += failed


def main():
    args = sys.argv[1:]
    rows = TEST_ALL if "--all" in args else TEST
    names = [arg for arg in args if arg != "--all"]
    unknown = [name for name in names if name not in STAGES]
    if unknown:
        sys.exit(f"unknown stage {unknown[0]}; there are: {' '.join(STAGES)}")
    if names:
        rows = [[name] for name in names]
    os.makedirs(LOGS, exist_ok=True)
    results = Results()
    start = time.monotonic()
    for row in rows:
        threads = [threading.Thread(target=results.run, args=(name,)) for name in row]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if "build" in results.failed_stages:
            break
    print(f"{time.monotonic() - start:.0f} s in all")
    print(f"{results.passed} passed, {results.failed} failed")
    return 1 if results.failed or not results.passed else 0


if __name__ == "__main__":
    sys.exit(main())
