"""graft profile and graft simulate: what one writes the other reads, and the same seed gives the same bytes."""

import json
import subprocess
import xml.etree.ElementTree

from conftest import DEMO, binary

SMALL = ("--runners", 3, "--adapters", 20, "--requests", 200, "--batch", 4, "--prompt-tokens", 20, "--output-tokens", 10, "--quiet")


def simulate(*args):
    return subprocess.run([binary(), "simulate", *map(str, args)], capture_output=True, text=True)


def test_the_same_seed_gives_the_same_bytes(tmp_path):
    files = [tmp_path / "first.json", tmp_path / "second.json", tmp_path / "other.json"]
    placements = "most-idle,punica,first-fit,random,rendezvous,min-cost-flow,caraserve,auto"
    for file, seed in zip(files, (1, 1, 2)):
        run = simulate(*SMALL, "--placement", placements, "--seed", seed, "--json", file,
                       "--picture", file.with_suffix(".svg"))
        assert run.returncode == 0, run.stderr
    assert files[0].read_bytes() == files[1].read_bytes()
    assert files[0].read_bytes() != files[2].read_bytes()
    drawn = [file.with_suffix(".svg").read_bytes() for file in files]
    assert drawn[0] == drawn[1] != drawn[2]
    # A bar for each placement in each of six panels, and what is behind them all.
    bars = xml.etree.ElementTree.fromstring(drawn[0]).findall("{http://www.w3.org/2000/svg}rect")
    assert len(bars) == 6 * len(placements.split(",")) + 1
    runs = json.loads(files[0].read_text())["runs"]
    assert [run["placement"] for run in runs] == placements.split(",")
    for run in runs:
        assert run["requests"] == run["counted"] == 200 and run["refused"] == 0
        assert 0 < run["first_token_ms"]["p50"] <= run["latency_ms"]["p50"]


def test_the_goal_throughput_ends_a_burst_sooner(tmp_path):
    """All requests come at once: prompts run in larger steps, by which the answers end sooner, and each run is alike."""
    def burst(*args):
        file = tmp_path / "figures.json"
        run = simulate("--runners", 1, "--adapters", 1, "--requests", 128, "--rate", 1e6, "--batch", 128,
                       "--prompt-tokens", 512, "--output-tokens", 128, "--placement", "most-idle", "--quiet", "--json",
                       file, *args)
        assert run.returncode == 0, run.stderr
        return json.loads(file.read_text())["runs"][0]
    latency = burst("--step-tokens-max", 2048, "--tune", "step-ms-max=50")
    throughput = burst("--goal", "throughput")
    assert throughput["latency_ms"]["mean"] < latency["latency_ms"]["mean"]
    assert throughput["steps"] < latency["steps"]
    assert throughput == burst("--goal", "throughput")
    by_hand = burst("--goal", "throughput", "--step-tokens-max", 512)
    assert by_hand["steps"] > throughput["steps"]


def test_a_recorded_trace_is_served_as_it_came(tmp_path):
    trace, file = tmp_path / "trace.csv", tmp_path / "figures.json"
    lines = [f"{i},{i * 0.5},adapter{i % 3},20,{10 + i}" for i in range(12)]
    trace.write_text("\n".join(["req_id,req_time_s,adapter,prompt_len,output_len", *lines]) + "\n")
    run = simulate("--trace", trace, "--runners", 2, "--placement", "auto", "--requests", 10, "--json", file, "--quiet")
    assert run.returncode == 0, run.stderr
    figures = json.loads(file.read_text())["runs"][0]
    assert figures["requests"] == figures["counted"] == 10
    assert figures["steps"] >= 19 and 4.5 < figures["seconds"] < 6
    run = simulate("--trace", trace, "--runners", 2, "--placement", "auto", "--rate", 24, "--json", file, "--quiet")
    assert run.returncode == 0 and "24.00 requests a second" in run.stdout, run.stdout + run.stderr
    assert json.loads(file.read_text())["runs"][0]["seconds"] < 1.5
    refused = simulate("--trace", trace, "--prefixes", 2, "--quiet")
    assert refused.returncode != 0 and "leave out --hill-seconds and --prefixes" in refused.stderr


def test_profiled_costs_are_simulated(tmp_path):
    costs = tmp_path / "costs.json"
    profile = subprocess.run([binary(), "profile", "--model", DEMO / "base", "--threads", "1", "--batch", "1,2,4", "--context", "8,64",
                              "--ranks", "4,16", "--prompt", "16,64", "--steps", "4", "--serve-runners", "2", "--json", costs],
                             capture_output=True, text=True)
    assert profile.returncode == 0, profile.stderr
    fitted = json.loads(costs.read_text())
    assert fitted["decode"]["unit"] == "sum of ranks" and fitted["other_unit"]["unit"] == "batch times largest rank"
    assert fitted["prompt"]["ms_per_unit"] > 0 and fitted["step"]["base_ms"] >= 0
    # Batches x (base, all ranks, each rank) x contexts, and prompts of two ranks alone and one beside others.
    assert len(fitted["steps"]) == 3 * 4 * 2 + 2 * 3
    served = fitted["served"]
    assert min(served["first_token_ms"], served["step_ms"], served["ms_per_row"]) >= 0
    assert served["decode_slowness"][0] == served["prompt_slowness"][0] == 1
    assert len(served["decode_slowness"]) == len(served["prompt_slowness"]) == 2
    # First tokens of each prompt, batches, and a token and a prompt with one and two runners busy.
    assert len(fitted["served_figures"]) == 2 + 3 + 4 and all(one["median_ms"] > 0 for one in fitted["served_figures"])
    assert "R squared" in profile.stdout
    simulated = tmp_path / "simulated.json"
    run = simulate(*SMALL, "--costs", costs, "--json", simulated)
    assert run.returncode == 0, run.stderr
    assert json.loads(simulated.read_text())["costs"]["served"] == served
    assert json.loads(simulated.read_text())["costs"]["step"] == fitted["step"]


def test_runners_of_a_machine_slow_each_other(tmp_path):
    costs, figures = tmp_path / "costs.json", tmp_path / "figures.json"
    run = simulate(*SMALL, "--placement", "most-idle", "--json", figures)
    assert run.returncode == 0, run.stderr
    fitted = json.loads(figures.read_text())["costs"]
    fitted["served"]["decode_slowness"] = fitted["served"]["prompt_slowness"] = [1, 2, 3]
    costs.write_text(json.dumps(fitted))
    alone = json.loads(figures.read_text())["runs"][0]
    run = simulate(*SMALL, "--placement", "most-idle", "--costs", costs, "--machine-runners", 3, "--json", figures)
    assert run.returncode == 0, run.stderr
    assert json.loads(figures.read_text())["runs"][0]["token_ms"]["mean"] > 1.2 * alone["token_ms"]["mean"]
    refused = simulate(*SMALL, "--machine-runners", 3)
    assert refused.returncode != 0 and "graft profile --serve-runners 3" in refused.stderr


def test_what_could_wait_for_ever_is_refused(tmp_path):
    run = simulate(*SMALL, "--pages", 10)
    assert run.returncode != 0 and "--pages must be" in run.stderr
    run = simulate(*SMALL, "--host-adapters", 2)
    assert run.returncode != 0 and "--fetch-ms" in run.stderr
    run = simulate(*SMALL, "--picture", tmp_path / "none" / "picture.svg")
    assert run.returncode != 0 and "cannot write" in run.stderr
    run = simulate(*SMALL, "--placement", "best")
    assert run.returncode == 2 and "min-cost-flow" in run.stderr
