"""Every suite of `graft-bench adapters` on a tiny shape, on the CPU: it runs, and its figures can be true."""

import json
import math
import subprocess

import pytest

from conftest import DEMO, bench_binary

TINY = ["--shape", str(DEMO / "base" / "config.json"), "--device", "cpu", "--threads", "1", "--sequences-max", "4",
        "--step-tokens-max", "64", "--context-tokens-max", "512", "--pool-gib", "0.05", "--ranks", "4,8",
        "--prompt-tokens", "4,16", "--output-tokens", "2,8", "--seconds", "1.5", "--warmup-seconds", "0.3",
        "--seed", "7"]  # its gaps between requests leave no window empty, however slow the machine is
LATENCIES = ["first_token_ms", "token_ms", "total_ms"]


def bench(tmp_path, suite, *args):
    """The rows of a suite."""
    out = tmp_path / "out.json"
    command = [bench_binary(), "adapters", "--suite", suite, *TINY, "--json", str(out), *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(out.read_text())
    assert result["suite"] == suite and result["rows"]
    return result["rows"]


def check_load(row):
    assert row["failed"] == 0
    assert row["requests"] > 0 and row["steps"] > 0
    assert row["tokens_per_second"] > row["requests_per_second"] > 0
    for latency in LATENCIES:
        figures = row[latency]
        assert 0 <= figures["p50"] <= figures["p90"] <= figures["p99"], latency
        # On a busy machine none of the window's answers may have come to a second token by its end.
        assert figures["p50"] > 0 or latency == "token_ms", latency
    assert row["first_token_ms"]["mean"] < row["total_ms"]["mean"]
    assert 0 <= row["waste_mean"] <= row["waste_max"] <= 1
    assert 0 <= row["user_satisfaction"] <= row["slo_attainment"] <= 1


def test_throughput_by_adapters(tmp_path):
    rows = bench(tmp_path, "throughput-by-adapters", "--adapters", "2,40", "--adapters-max", "8")
    assert [(row["pool"], row["adapters"]) for row in rows] == [("shared", 2), ("shared", 40), ("static", 2),
                                                                ("static", 40)]
    for row in rows:
        check_load(row)
        assert row["adapters_resident"] <= 8 and row["requests_per_second_asked"] == 0
    assert rows[0]["over_first"] == 1.0
    assert rows[0]["adapter_copies"] == 2 and rows[1]["adapter_copies"] > 8


def test_throughput_at_a_rate(tmp_path):
    rows = bench(tmp_path, "throughput-by-adapters", "--adapters", "2,40", "--pools", "shared", "--rates", "8,16")
    assert [(row["requests_per_second_asked"], row["adapters"]) for row in rows] == [(8, 2), (8, 40), (16, 2), (16, 40)]
    for row in rows:
        check_load(row)
    # The same requests at the same times, whoever asks; and each rate is compared with its own first row.
    assert rows[0]["requests"] == rows[1]["requests"] and rows[2]["requests"] == rows[3]["requests"]
    assert rows[0]["requests"] < rows[2]["requests"] and rows[0]["over_first"] == rows[2]["over_first"] == 1.0


def test_zipf_repeats_adapters(tmp_path):
    shared = ["--adapters", "300", "--adapters-max", "300", "--pools", "shared"]
    uniform, skewed = (bench(tmp_path, "throughput-by-adapters", *shared, "--zipf", zipf)[0] for zipf in ("0", "3"))
    check_load(skewed)
    assert 0 < skewed["copies_per_request"] < uniform["copies_per_request"]


def test_adapters_over_capacity(tmp_path):
    rows = bench(tmp_path, "adapters-over-capacity", "--slots", "4", "--tune", "turn-ms=50")
    assert [row["adapters"] for row in rows] == [4, 32, 64] * 2
    for row in rows:
        check_load(row)
        assert row["adapters_resident"] <= 4
    closed, opened = rows[:3], rows[3:]
    assert all(row["requests_per_second_asked"] == 0 for row in closed)
    assert closed[2]["adapter_evictions"] > 0 and closed[2]["turns"] > 0
    asked = 0.7 * closed[0]["requests_per_second"]
    assert all(math.isclose(row["requests_per_second_asked"], asked) for row in opened)


def test_cold_starts(tmp_path):
    rows = bench(tmp_path, "cold-starts", "--adapters", "24", "--slots", "6")
    ways = {row["cold_start"]: row for row in rows}
    assert list(ways)[:3] == ["cached", "blocking", "join-later"]
    for row in rows:
        check_load(row)
        for latency in LATENCIES:
            points = row[latency]["distribution"]
            assert len(points) == 101 and points == sorted(points) and points[0] <= row[latency]["mean"] <= points[-1]
    assert ways["cached"]["adapter_copies"] == 0
    assert ways["cached"]["over_cached"]["total"]["mean"] == 0 and "cold_share" not in ways["cached"]
    for row in rows[1:]:
        shares = row["cold_share"]["distribution"]
        assert len(shares) == 101 and shares == sorted(shares) and shares[-1] <= 1
    assert all(row["adapter_copies"] > 0 for name, row in ways.items() if name != "cached")
    assert len({row["requests_per_second_asked"] for row in rows}) == 1


def test_cold_starts_with_a_slot_for_each(tmp_path):
    rows = bench(tmp_path, "cold-starts", "--adapters", "12", "--slots", "0", "--adapters-max", "12", "--cold-starts",
                 "auto")
    assert [row["cold_start"] for row in rows] == ["cached", "auto"]
    assert rows[1]["slots"] == 12
    assert 0 < rows[1]["adapter_copies"] <= 12


def test_cold_starts_by_adapters_and_load(tmp_path):
    popularity = tmp_path / "functions.csv"
    popularity.write_text("HashFunction,HashApp,HashOwner,minute_1,minute_2\n" +
                          "".join(f"f{i},a,o,{100 // (i + 1)},{i % 2}\n" for i in range(30)))
    rows = bench(tmp_path, "cold-starts", "--adapters", "10,20", "--loads", "0.2,0.4", "--slots", "6", "--popularity",
                 str(popularity), "--cold-starts", "auto+cpu")
    points = [(10, 0.1), (10, 0.2), (20, 0.2), (20, 0.4)]
    assert [(row["cold_start"], row["adapters"], row["load"]) for row in rows] == \
        [(way, *point) for way in ("cached", "auto+cpu") for point in points]
    capacity = rows[3]["requests_per_second_asked"] / 0.4
    for row in rows:
        check_load(row)
        assert math.isclose(row["requests_per_second_asked"], row["load"] * capacity)
        assert 0 < row["prompt_steps"] <= row["steps"]
        assert row["prompt_iteration_ms"] > 0 and row["decode_iteration_ms"] > 0
    assert [len(row["popularity"]) for row in rows[:4]] == [10, 10, 20, 20]
    assert rows[0]["popularity"] == sorted(rows[0]["popularity"], reverse=True)


def test_pool(tmp_path):
    rows = bench(tmp_path, "pool", "--adapters", "2,20", "--shares", "0.25")
    assert [(row["pool"], row["adapters"]) for row in rows] == [("shared", 2), ("shared", 20), ("static", 2),
                                                                ("static", 20)]
    for row in rows:
        check_load(row)
    assert rows[3]["adapter_pages_share"] <= 0.25
    ratios = [row["tokens_per_second"] / split["tokens_per_second"] for row, split in zip(rows[:2], rows[2:])]
    assert [row["shared_over_this"] for row in rows[2:]] == pytest.approx(ratios)
    rounding = 1e-9  # equal ratios may combine to one beside them
    assert min(ratios) - rounding <= rows[2]["shared_over_this_combined"] <= max(ratios) + rounding


def test_stall(tmp_path):
    rows = bench(tmp_path, "stall", "--probes", "3")
    assert [(row["cold_start"], row["rank"]) for row in rows] == [("join-later", 4), ("join-later", 8),
                                                                  ("blocking", 4), ("blocking", 8)]
    for row in rows:
        assert row["copy_ms"] > 0 and row["step_ms"] > 0 and row["loads"] == 3
    assert rows[1]["mib"] == 2 * rows[0]["mib"]


def test_slo(tmp_path):
    rows = bench(tmp_path, "slo", "--adapters", "20", "--loads", "0.5,0.8", "--variations", "4", "--alphas", "0.3")
    assert [(row["varied"], row["value"]) for row in rows] == [("load", 0.5), ("load", 0.8), ("cv", 4.0),
                                                               ("alpha", 0.3)]
    for row in rows:
        check_load(row)
        assert row["requests_per_second_asked"] > 0


def test_traces(tmp_path):
    begin = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    long, short = tmp_path / "trace.csv", tmp_path / "short.csv"
    long.write_text(begin + "".join(f"2023-11-16 18:{i // 60:02}:{i % 60:02}.5,{5 + i % 7},{2 + i % 5}\n"
                                    for i in range(600)))
    short.write_text(begin + "2023-11-16 18:00:00.5,5,5\n")
    rows = bench(tmp_path, "traces", "--adapters", "20", "--trace", str(short), "--trace", str(long))
    assert [row["value"] for row in rows] == ["trace.csv"], "what is too short for the window spoils no other"
    check_load(rows[0])
    assert rows[0]["requests_per_second_asked"] > 0


def bench_assist(tmp_path, *args):
    out = tmp_path / "out.json"
    command = [bench_binary(), "assist", "--shape", str(DEMO / "base" / "config.json"), "--rows", "5", "--rank", "4",
               "--steps", "3", "--json", str(out), *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(out.read_text())["rows"]


def test_assist(tmp_path):
    rows = bench_assist(tmp_path, "--device", "cpu", "--threads", "1", "--workers", "1,2")
    assert [(row["rows"], row["workers"]) for row in rows] == [(5, 1), (5, 2)]
    assert all(row[key] > 0 for row in rows for key in ("flags_ms", "synchronised_ms", "threaded_ms", "device_ms"))
    assert rows[0]["threaded_ms"] == rows[0]["flags_ms"], "one core is one core"


def test_assist_ipc(tmp_path):
    rows = bench_assist(tmp_path, "--ipc", "--workers", "1,3")
    assert [row.pop("workers") for row in rows] == [1, 3]
    assert all(us > 0 for row in rows for us in row.values())


def test_first_use(tmp_path):
    rows = bench(tmp_path, "first-use", "--adapters", "6", "--in-flight", "13", "--adapters-max", "16")
    assert [row["hashes"] for row in rows] == ["unknown", "remembered"]
    for row in rows:
        assert row["adapters"] == 6 and row["requests"] == 13
        for figures in (row["alone_first_token_ms"], row["alone_resident_first_token_ms"], row["first_token_ms"]):
            assert 0 < figures["p50"] <= figures["p99"]


@pytest.mark.parametrize(("args", "words"), [(["--suite", "nothing"], "throughput-by-adapters"),
                                             (["--suite", "pool", "--ranks", "0"], "--ranks"),
                                             (["--suite", "pool", "--load", "0"], "--load"),
                                             (["--suite", "pool", "--zipf", "-1"], "--zipf"),
                                             (["--suite", "traces"], "--trace"),
                                             (["--suite", "pool", "--modules", "q"], "attention"),
                                             (["--suite", "pool", "--alphas", "0"], "--alphas"),
                                             (["--suite", "throughput-by-adapters", "--rates", "0"], "--rates"),
                                             (["--suite", "pool", "--shares", "-1"], "--shares")])
def test_what_is_wrong_is_named(args, words):
    done = subprocess.run([bench_binary(), "adapters", *TINY, *args], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and words in done.stderr
