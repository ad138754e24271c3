#!/usr/bin/env python3
"""Runs the checks of the project, stage by stage; `make test` calls it, `make test-all` with --all.

docs/inside/checks.md says which stage checks what. Stages can be named on the command line (make test STAGES="tidy
unit"). Each prints its time; output of a stage is kept in build/logs/ and shown where it failed. The last line
counts passed and failed checks. Stages of one row run side by side: they wait for different things. Programs that
passed and have not changed since are not run again, unless stages are named.
"""

import concurrent.futures
import glob
import hashlib
import json
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
TSAN_TESTS = ["base_test", "request_test", "cache_test", "engine_thread_test", "folder_catalog_test",
              "registry_test", "trace_test", "open_load_test"]
TSAN_SLOW_TESTS = ["cpu_assist_test", "rank_steps_test", "http_test", "keys_test", "dashboard_test", "openai_test",
                   "server_test"]
# With gRPC, which is not instrumented. Health checks are answered by gRPC alone, in code of its headers: what its locks
# guard looks like a race there, and the tests that ask for one are left out.
TSAN_RPC_TESTS = ["rpc_test", "runner_set_test", "cluster_test", "etcd_test"]
TSAN_RPC = {"TSAN_OPTIONS": f"halt_on_error=1:second_deadlock_stack=1:ignore_noninstrumented_modules=1:"
                            f"suppressions={ROOT}/tools/tsan.supp",
            "GTEST_FILTER": "-*.AnswersHealthChecks:*.AServersRenewedCertificateIsThatOfLaterConnections"}
# Programs that run a part of what they can unless GRAFT_LONG_TESTS is set.
LONG_TESTS = ["engine_test", "text_test"]
LONG = {"GRAFT_LONG_TESTS": "1"}
# Whole-program tests that take longest: they begin first, and the others fill what is left at the end.
LONG_PYTESTS = [f"tests/test_{name}.py" for name in ("adapter_paging", "features", "openai_client", "bench_adapters",
                                                     "cluster", "golden", "cluster_etcd")]
# Servers' threads that poll for work hold up those of other servers, of which several run at once.
ONE_THREAD = {"GRAFT_THREADS": "1"}
FUZZ_SECONDS = 40
NUM_CORES = len(os.sched_getaffinity(0))  # those that this process may use
# `make test` alone does: who names stages or asks for all of them gets them whole.
SKIPS_WHAT_PASSED = not sys.argv[1:]


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


def file_hash(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def libraries_of(program):
    """Those that it opens when it needs them, for several machines, answers in a given form and so on: it names them."""
    with open(program, "rb") as file:
        content = file.read()
    libraries = glob.glob(os.path.join(os.path.dirname(program), "*.so")) + glob.glob(f"{ROOT}/build/grammar/*.so")
    return sorted(library for library in libraries if os.path.basename(library).encode() in content)


class Passed:
    """What passed in a stage, and with which bytes: the program's, those of libraries that it loads later, and those of
    every file outside src/, since tests read goldens, models and pages. Where all are the same `make test` does not run
    it again."""

    def __init__(self, stage, skips):
        self.path = os.path.join(ROOT, "build", "dev", f"passed-{stage}.json")
        self.skips = skips
        self.passed = {}
        if os.path.exists(self.path):
            with open(self.path) as file:
                self.passed = json.load(file)
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, stdout=subprocess.PIPE,
                                text=True).stdout.splitlines()
        paths = [path for path in listed if not path.startswith("src/") and os.path.isfile(os.path.join(ROOT, path))]
        self.data = hashlib.sha256(repr([(path, file_hash(os.path.join(ROOT, path))) for path in sorted(paths)])
                                   .encode()).hexdigest() if listed else None

    def key(self, program):
        return " ".join([*map(file_hash, [program, *libraries_of(program)]), str(self.data)])

    def skip(self, name, program):
        return (self.skips and self.data is not None and os.path.exists(program)
                and self.passed.get(name) == self.key(program))

    def add(self, programs):
        """Names with their programs, all of which have passed."""
        self.passed.update({name: self.key(program) for name, program in programs.items()})
        with open(self.path, "w") as file:
            json.dump(self.passed, file, indent=1)


def unit_programs(preset):
    """CTest's names, and the program that each runs: "" where it is missing."""
    listed = subprocess.run(["ctest", "--test-dir", f"build/{preset}", "--show-only=json-v1"], cwd=ROOT,
                            stdout=subprocess.PIPE, text=True).stdout
    return {test["name"]: test.get("command", [""])[0] for test in json.loads(listed)["tests"]}


def ctest(preset, log, only="", more_env=None):
    # Sanitizers' verdicts must fail the test, whatever it catches.
    env = {"ASAN_OPTIONS": "abort_on_error=1:detect_stack_use_after_return=1",
           "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
           "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1", **(more_env or {})}
    _, output = run(f"ctest --test-dir build/{preset} -j{max(2, NUM_CORES)} --output-on-failure --no-tests=error "
                    f"{only}", log, env)
    return output


def stage_tidy(log):
    """Layers, sizes, format: seconds."""
    formatter = "build/venv/bin/clang-format --dry-run -Werror"
    results = [run("python3 tools/tidy.py", log)[0],
               run(f"git ls-files 'src/*.h' 'src/*.cc' 'src/*.cu' 'src/*.cuh' | xargs {formatter}", log)[0]]
    return results.count(0), len(results) - results.count(0)


def stage_build(log):
    """Everything under ASan and UBSan, by clang."""
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
    passed = Passed("unit", SKIPS_WHAT_PASSED)
    programs = unit_programs("dev")
    if not programs:
        return 0, 1
    to_run = {name: program for name, program in programs.items() if not passed.skip(name, program)}
    if len(to_run) < len(programs):
        print(f"   unit: {len(programs) - len(to_run)} programs are as they were when they passed", flush=True)
    if not to_run:
        return 0, 0
    only = "|".join(re.escape(name) for name in to_run)
    output = ctest("dev", log, f"-R '^({only})$'")
    names = re.findall(r"Test +#\d+: (\S+) \.* +Passed", output)
    passed.add({name: to_run[name] for name in names if name in to_run})
    say_what_was_skipped("dev")
    return count_ctest(output)


def stage_long(log):
    """Test programs that `make test` runs in part, in full."""
    return count_ctest(ctest("dev", log, f"-R '^({'|'.join(LONG_TESTS)})(\\.[0-9]+)?$'", LONG))


def stage_seeds(log):
    """10,000 clusters among faults."""
    if not build("seeds", ["hostile_test"], log):
        return 0, 1
    return count_ctest(ctest("seeds", log, "-R '^hostile_test(\\.[0-9]+)?$'", LONG))


def whole_program_tests():
    others = set(glob.glob("tests/test_*.py", root_dir=ROOT)) - set(LONG_PYTESTS)
    return LONG_PYTESTS + sorted(others)


def pytest(preset, log, env=None, files=None, venv="venv"):
    """Each file in a process of its own, some at once: more of them where servers have one thread."""
    files = files or whole_program_tests()
    # The leak check reads what threads keep for themselves, and dies of it where one of gRPC's ends just then.
    env = {"GRAFT_BINARY": os.path.join(ROOT, "build", preset, "graft"),
           "LSAN_OPTIONS": f"suppressions={ROOT}/tools/lsan.supp:print_suppressions=0:use_tls=0", **(env or {})}
    command = f"build/{venv}/bin/python -m pytest -q -p no:cacheprovider --durations=5"
    at_once = max(3, NUM_CORES // 2) if env.get("GRAFT_THREADS") == "1" else max(2, NUM_CORES // 8)
    at_once = min(at_once, 16)  # each has several servers, with what sanitizers need
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        results = list(pool.map(lambda file: run(f"{command} {file}", log, env), files))
    num_passed = num_failed = 0
    for code, output in results:
        # The last such line: what servers print stands before it, and may look alike.
        summary = (re.findall(r"^\d+ (?:passed|failed|error|skipped).* in [\d.]+s", output, re.M) or [""])[-1]
        passed = re.search(r"(\d+) passed", summary)
        failed = sum(map(int, re.findall(r"(\d+) (?:failed|error)", summary)))
        num_passed += int(passed.group(1)) if passed else 0
        num_failed += failed or int(code != 0)
    return num_passed, num_failed


def stage_program(log):
    """The whole programs, under ASan and UBSan, and the official client."""
    programs = {name: os.path.join(ROOT, "build", "dev", name) for name in ("graft", "graft-bench")}
    passed = Passed("program", SKIPS_WHAT_PASSED)
    if all(passed.skip(name, program) for name, program in programs.items()):
        print("   program: both are as they were when they passed", flush=True)
        return 0, 0
    results = pytest("dev", log, {} if "--all" in sys.argv else ONE_THREAD)
    if results[0] and not results[1]:
        passed.add(programs)
    return results


def stage_release(log):
    """The same with the program as operators run it, and what takes long."""
    if not build("release", ["graft", "graft-bench"], log) or not build("dev", ["schema_answers"], log):
        return 0, 1
    return pytest("release", log, LONG)


def stage_isa(log):
    """No function compiled for AVX leaks into code that older machines run."""
    code, _ = run("tools/check_isa_symbols.sh build/dev", log)
    return int(code == 0), int(code != 0)


def tsan(tests, log, env=None):
    if not build("tsan", tests, log):
        return 0, 1
    return count_ctest(ctest("tsan", log, f"-R '^({'|'.join(tests)})$'", env))


def stage_tsan(log):
    """Threaded tests under TSan."""
    return tsan(TSAN_TESTS, log)


def stage_tsan_slow(log):
    """Those that take more of the program with them, and those of several machines."""
    results = [tsan(TSAN_SLOW_TESTS, log)]
    if set(TSAN_RPC_TESTS) <= set(unit_programs("tsan")):
        results.append(tsan(TSAN_RPC_TESTS, log, TSAN_RPC))
    else:
        print("   without gRPC: the tests of several machines are left out", flush=True)
    return sum(passed for passed, _ in results), sum(failed for _, failed in results)


def stage_alone(log):
    """Every file and every header compiled by itself, by gcc; every test program as gcc's sanitizers see it."""
    if not build("alone", ["all", "bench_programs"], log):
        return 0, 1
    passed, failed = count_ctest(ctest("alone", log))
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


def stage_ray(log):
    """Runners on a Ray cluster: two nodes on this machine, of which one is killed."""
    if not build("release", ["graft"], log):
        return 0, 1
    return pytest("release", log, files=["tests/deploy_ray"], venv="venv-ray")


def stage_agents(log):
    """Agents' libraries, which call tools and want answers in a form."""
    if not build("dev", ["graft", "scripted_server"], log):
        return 0, 1
    return pytest("dev", log, ONE_THREAD, files=["tests/agent_clients"], venv="venv-agents")


def stage_stores(log):
    """A store like S3 that checks signatures."""
    if not build("dev", ["graft"], log):
        return 0, 1
    return pytest("dev", log, ONE_THREAD, files=["tests/stores"], venv="venv-stores")


def stage_dashboard(log):
    """The dashboard in headless Chromium, over servers under load."""
    if not build("release", ["graft"], log):
        return 0, 1
    return pytest("release", log, files=["tests/dashboard"])


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
    with concurrent.futures.ThreadPoolExecutor(NUM_CORES) as pool:
        codes = list(pool.map(lambda name: fuzz(name, log), names))
    return codes.count(0), len(codes) - codes.count(0) + (not codes)


def stage_lint(log):
    """clang-tidy over what changed since it last passed."""
    code, _ = run("tools/build.sh alone help && python3 tools/lint.py build/alone", log)
    return int(code == 0), int(code != 0)


STAGES = {"tidy": stage_tidy, "build": stage_build, "unit": stage_unit, "program": stage_program,
          "isa": stage_isa, "tsan": stage_tsan, "long": stage_long, "seeds": stage_seeds, "release": stage_release, "tsan_slow": stage_tsan_slow,
          "alone": stage_alone, "cuda": stage_cuda, "dist": stage_dist, "deb": stage_deb, "fuzz": stage_fuzz,
          "lint": stage_lint, "dashboard": stage_dashboard, "ray": stage_ray,
          "agents": stage_agents, "stores": stage_stores}
# In this order; those of one row at once.
TEST = [["tidy"], ["build"], ["program", "unit"], ["isa"], ["tsan"]]
TEST_ALL = TEST + [["long"], ["seeds"], ["release"], ["tsan_slow"], ["alone"], ["lint"], ["cuda"], ["dist"], ["deb"], ["fuzz"],
                   ["dashboard"], ["ray"], ["agents"], ["stores"]]


def reason(name, text):
    """The lines in which GoogleTest or pytest say why a test failed, at most six; none where they do not."""
    if name.startswith("tests/"):
        title = re.escape(name.split("::")[-1].split("[")[0])
        part = re.search(rf"^_+ (?:ERROR at \w+ of )?{title}\b.*?_+\n(.*?)^(?:_{{4,}}|={{4,}})", text, re.M | re.S)
        return [line for line in part.group(1).splitlines() if line.startswith("E  ")][:6] if part else []
    part = re.search(rf"\[ RUN      \] {re.escape(name)}\n(.*?)\[  FAILED  \] {re.escape(name)}", text, re.S)
    return part.group(1).splitlines()[-6:] if part else []


def failed_tests(log):
    """Names, as GoogleTest, pytest and ctest print them, each with its reason."""
    patterns = [r"\[  FAILED  \] (\S+\.\S+)", r"(?:FAILED|ERROR) (tests/\S+)", r"\s+\d+ - (\S+) \("]
    with open(log, errors="replace") as file:
        text = file.read()
    names = sorted({name for pattern in patterns for name in re.findall(f"^{pattern}", text, re.M)})
    return {name: reason(name, text) for name in names}


class Results:
    """Counts and prints what the stages bring; any thread."""

    def __init__(self):
        self.lock = threading.Lock()
        self.passed = 0
        self.failed = 0
        self.failed_stages = {}  # with the names of their tests that failed

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
                self.failed_stages[name] = failed_tests(log)
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
    for name, tests in results.failed_stages.items():
        print(f"failed in {name}: see build/logs/{name}.log")
        for test, lines in tests.items():
            print("\n".join([f"  {test}", *(f"    {line[:160]}" for line in lines)]))
    print(f"{results.passed} passed, {results.failed} failed")
    return 1 if results.failed or not results.passed else 0


if __name__ == "__main__":
    sys.exit(main())
