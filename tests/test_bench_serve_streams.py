"""`bench/serve_streams.py` on a small load: it counts every kind of thread that a stream passes by its name."""

import json
import subprocess

from conftest import ROOT, binary


def test_threads_are_told_apart(tmp_path):
    out = tmp_path / "out.json"
    done = subprocess.run([ROOT / "bench" / "serve_streams.py", binary(), "--streams", "8", "--tokens", "20", "--warm", "0.5",
                           "--seconds", "2", "--json", str(out), "--", "--device", "cpu", "--threads", "1", "--pool-gib",
                           "0.1"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    result = json.loads(out.read_text())
    assert result["errors"] == 0 and result["tokens_per_second"] > 0
    threads = {row["threads"]: row for row in result["threads"]}
    assert {"engine", "http"} <= set(threads)
    for name in ("engine", "http"):
        row = threads[name]
        assert row["count"] >= 1 and row["cores"] > 0 and 0 <= row["system_share"] <= 1
        assert abs(row["cores"] - 1e-6 * result["tokens_per_second"] * row["us_per_token"]) < 1e-6
