#!/usr/bin/env python3
"""Runs every check of the project, stage by stage; `make test` calls it.

Stages can be named on the command line (make test STAGES="tidy unit"). Each prints its time; output of a
stage is kept in build/logs/ and shown where it failed. The last line counts passed and failed checks.
"""

import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOGS = os.path.join(ROOT, "build", "logs")

# Threaded programs worth TSan's time.
TSAN_TESTS = ["base_test", "request_test", "cache_test", "engine_thread_test", "cpu_assist_test",
              "adapter_catalog_test", "registry_test", "server_api_test", "server_test", "open_load_test"]
FUZZ_SECONDS = 5


def run(command, log, env=None):
    """Runs a shell command, keeps its output in `log` (appending), returns (exit code, output)."""
    done = subprocess.run(command, shell=True, cwd=ROOT, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, env={**os.environ, **(env or {})}, errors="replace")
    with open(log, "a") as file:
        file.write(f"$ {command}\n{done.stdout}\n")
    return done.returncode, done.stdout


def build(preset, targets, log):
    if not os.path.exists(f"{ROOT}/build/{preset}/build.ninja"):
        code, _ = run(f"cmake --preset {preset}", log)
        if code != 0:
            return False
    code, _ = run(f"cmake --build --preset {preset} --target {' '.join(targets)}", log)
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
    results = [run("python3 tools/tidy.py", log)[0],
               run("git ls-files 'src/*.h' 'src/*.cc' 'src/*.cu' 'src/*.cuh' | xargs clang-format --dry-run -Werror", log)[0]]
    return results.count(0), len(results) - results.count(0)


def stage_build(log):
    """Everything under ASan and UBSan, every header alone."""
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
    results = ctest("dev", log)
    say_what_was_skipped("dev")
    return results


def stage_program(log):
    """The release binary (for one GPU architecture) and the official client."""
    if not build("program", ["graft"], log):
        return 0, 1
    code, output = run("build/venv/bin/python -m pytest -q tests --durations=5", log,
                       {"GRAFT_BINARY": os.path.join(ROOT, "build/program/graft")})
    passed = re.search(r"(\d+) passed", output)
    failed = re.search(r"(\d+) (?:failed|error)", output)
    num_failed = int(failed.group(1)) if failed else int(code != 0)
    return (int(passed.group(1)) if passed else 0), num_failed


def stage_isa(log):
    """No function compiled for AVX leaks into code that older machines run."""
    code, _ = run("tools/check_isa_symbols.sh build/dev", log)
    return int(code == 0), int(code != 0)


def stage_tsan(log):
    if not build("tsan", TSAN_TESTS, log):
        return 0, 1
    return ctest("tsan", log, f"-R '^({'|'.join(TSAN_TESTS)})$'")


def stage_fuzz(log):
    if not build("fuzz", ["fuzzers"], log):
        return 0, 1
    passed = failed = 0
    for name in sorted(os.listdir(f"{ROOT}/build/fuzz")):
        if not name.endswith("_fuzz"):
            continue
        seeds = f"tests/fuzz_corpus/{name}"
        corpus = f"build/fuzz/corpus/{name}"
        os.makedirs(f"{ROOT}/{corpus}", exist_ok=True)
        seeds = seeds if os.path.isdir(f"{ROOT}/{seeds}") else ""
        code, _ = run(f"build/fuzz/{name} -max_total_time={FUZZ_SECONDS} -rss_limit_mb=2048 "
                      f"-timeout=20 -artifact_prefix=build/fuzz/ {corpus} {seeds}", log)
        passed += code == 0
        failed += code != 0
    return passed, failed + (passed + failed == 0)


def stage_lint(log):
    """clang-tidy over what changed since it last passed."""
    code, _ = run("python3 tools/lint.py build/dev", log)
    return int(code == 0), int(code != 0)


STAGES = {"tidy": stage_tidy, "build": stage_build, "unit": stage_unit, "program": stage_program,
          "isa": stage_isa, "tsan": stage_tsan, "fuzz": stage_fuzz, "lint": stage_lint}


def main():
    names = sys.argv[1:] or list(STAGES)
    unknown = [name for name in names if name not in STAGES]
    if unknown:
        sys.exit(f"unknown stage {unknown[0]}; there are: {' '.join(STAGES)}")
    os.makedirs(LOGS, exist_ok=True)
    total_passed = total_failed = 0
    for name in names:
        log = os.path.join(LOGS, f"{name}.log")
        open(log, "w").close()
        print(f"== {name}: {(STAGES[name].__doc__ or name).splitlines()[0]}", flush=True)
        start = time.monotonic()
        passed, failed = STAGES[name](log)
        print(f"   {passed} passed, {failed} failed, {time.monotonic() - start:.0f} s", flush=True)
        if failed:
            with open(log, errors="replace") as file:
                print("".join(file.readlines()[-150:]), flush=True)
        total_passed += passed
        total_failed += failed
        if failed and name == "build":
            break
    print(f"{total_passed} passed, {total_failed} failed")
    return 1 if total_failed or not total_passed else 0


if __name__ == "__main__":
    sys.exit(main())
