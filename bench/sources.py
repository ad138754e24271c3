#!/usr/bin/env python3
"""What fetching costs: figures of docs/benchmarks.md about models and adapters by name. Everything is on loopback.

  bench/sources.py fetch   --mib 300 --shards 6 --rounds 5    MB/s and processor time from nginx, checksums on
  bench/sources.py beside  --rate 100m                        the time between a stream's tokens while an adapter is fetched
  bench/sources.py cold                                       the first answer of an adapter of 100 MB from moto
  bench/sources.py unknown                                    another tenant's first tokens beside 1,000 unknown names a second,
                                                              and beside as many requests that another server refuses

All but cold need nginx; cold needs moto and boto3 (tests/stores/requirements.txt) in the Python that runs this. A machine
that does other work makes times long: fetch tells processor time, too, and beside and unknown take turns of both sides.
"""

import argparse
import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "bench")]
from cluster_overhead import make_model
from local_server import free_port, wait_listening, wait_ready
from random_folders import make_adapters

COMMIT = "0123456789abcdef0123456789abcdef01234567"
# 124 M parameters; an adapter of rank 256 has 102 MB.
SHAPE = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 1024,
         "intermediate_size": 2816, "num_hidden_layers": 11, "num_attention_heads": 16, "num_key_value_heads": 4,
         "max_position_embeddings": 4096, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": True,
         "torch_dtype": "bfloat16", "vocab_size": 4096}
RANK = 256


def seconds_of(pids):
    """Processor time that these processes and their ended children have taken."""
    ticks = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def children(pid):
    return [pid, *(int(child) for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children")
                   for child in task.read_text().split())]


def busy_elsewhere():
    """Seconds of all processors so far: all, and those that were idle."""
    fields = list(map(int, pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:9]))
    return sum(fields) / os.sysconf("SC_CLK_TCK"), (fields[3] + fields[4]) / os.sysconf("SC_CLK_TCK")


class Nginx:
    """nginx of one process on a port of its own. `state` is a folder that it may write and that is deleted at the end."""

    def __init__(self, nice=0):
        self.port, self.nice = free_port(), nice
        self.state = pathlib.Path(tempfile.mkdtemp(prefix="graft-nginx-"))

    def configure(self, http, locations):
        (self.state / "conf").write_text(f"""
            daemon off; user {'root' if os.getuid() == 0 else 'nobody'}; pid {self.state}/pid; error_log stderr crit;
            worker_processes 1; events {{ worker_connections 256; }}
            http {{ access_log off; {http}
              client_body_temp_path {self.state}/a; proxy_temp_path {self.state}/b; fastcgi_temp_path {self.state}/c;
              uwsgi_temp_path {self.state}/d; scgi_temp_path {self.state}/e;
              server {{ listen 127.0.0.1:{self.port}; {locations} }} }}""")

    def __enter__(self):
        self.process = subprocess.Popen(["nice", "-n", str(self.nice), "nginx", "-p", str(self.state), "-c",
                                         str(self.state / "conf")])
        wait_listening(self.port, self.process)
        return self

    def __exit__(self, *unused):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.state)

    def seconds(self):
        return seconds_of(children(self.process.pid))


class StaticHub(Nginx):
    """Repositories of a hub as files: FOLDER/ORG/NAME has each one's. `nice`: a hub stands for another machine, so it
    yields where one is measured that serves."""

    def __init__(self, folder, rate="0", nice=0):
        super().__init__(nice)
        for repo in folder.glob("*/*"):
            rows = [row_of(path, repo) for path in sorted(repo.rglob("*")) if path.is_file()]
            name = f"{repo.parent.name}/{repo.name}"
            (self.state / "api" / name).mkdir(parents=True)
            (self.state / "api" / name / "tree").write_text(json.dumps(rows))
            (self.state / "api" / name / "revision").write_text(json.dumps({"id": name, "sha": COMMIT}))
        self.configure(f"sendfile on; tcp_nopush on; keepalive_requests 100000; limit_rate {rate};", f"""
                location ~ ^/api/models/([^/]+/[^/]+)/(tree|revision)/ {{ default_type application/json;
                  alias {self.state}/api/$1/$2; }}
                location ~ ^/([^/]+/[^/]+)/resolve/[^/]+/(.+)$ {{ alias {folder}/$1/$2; }}""")


def row_of(path, repo):
    data = path.read_bytes()
    row = {"type": "file", "path": str(path.relative_to(repo)), "size": len(data),
           "oid": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()}
    if len(data) > 1000:
        row["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
    return row


def environment(hub, cache, **more):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "AWS_"))}
    return {**clean, "HF_ENDPOINT": f"http://127.0.0.1:{hub.port}", "HF_HOME": str(cache), **more}


def make_large_repo(folder, mib, shards):
    repo = folder / "org" / "large"
    repo.mkdir(parents=True)
    (repo / "config.json").write_text("{}")
    names = [f"model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)]
    block = os.urandom(1 << 20)
    for i, name in enumerate(names):
        with open(repo / name, "wb") as file:
            for j in range(mib // shards):
                file.write(b"%8d" % (i << 16 | j) + block[8:])
    (repo / "model.safetensors.index.json").write_text(json.dumps({"weight_map": dict(zip(map(str, range(shards)), names))}))
    return sum(path.stat().st_size for path in repo.iterdir())


def fetch(options):
    cache = pathlib.Path(tempfile.mkdtemp(prefix="graft-cache-", dir=options.cache))
    source = pathlib.Path(tempfile.mkdtemp(prefix="graft-hub-", dir=options.cache))
    try:
        size = make_large_repo(source, options.mib, options.shards)
        rows = []
        with StaticHub(source) as hub:
            for _ in range(options.rounds):
                shutil.rmtree(cache)
                cache.mkdir()
                served, (all_before, idle_before) = hub.seconds(), busy_elsewhere()
                begin = time.monotonic()
                process = subprocess.Popen([options.binary, "fetch", "org/large", "--quiet", "--connections",
                                            str(options.connections)], env=environment(hub, cache), stdout=subprocess.DEVNULL)
                _, status, usage = os.wait4(process.pid, 0)
                seconds = time.monotonic() - begin
                process.returncode = os.waitstatus_to_exitcode(status)
                assert process.returncode == 0
                own, served = usage.ru_utime + usage.ru_stime, hub.seconds() - served
                all_after, idle_after = busy_elsewhere()
                others = (all_after - all_before) - (idle_after - idle_before) - own - served
                rows.append((size / 1e6 / seconds, own / size * 1e9, served / size * 1e9, others / (all_after - all_before)))
                print("%.0f MB in %.2f s: %.0f MB/s; processor seconds a GB: graft %.2f, nginx %.2f; others had %.0f %% of "
                      "all processors" % (size / 1e6, seconds, *rows[-1][:3], 100 * max(0, rows[-1][3])), flush=True)
        best = max(rows)
        print("median %.0f MB/s, best %.0f; processor seconds a GB, least: graft %.2f, nginx %.2f"
              % (statistics.median(row[0] for row in rows), best[0], min(row[1] for row in rows), min(row[2] for row in rows)))
    finally:
        shutil.rmtree(cache)
        shutil.rmtree(source)


class Server:
    def __init__(self, options, model, *args, env):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.args = [options.binary, "serve", "--model", str(model), "--host", "127.0.0.1", "--port", str(self.port),
                     "--threads", str(options.threads), "--pool-gib", "0.5", "--quiet", "--model-name", "base", *map(str, args)]
        self.env = env

    def __enter__(self):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(self.args, env=self.env, stderr=self.log)
        try:
            wait_ready(self.url, self.process)
        except RuntimeError:
            self.log.seek(0)
            sys.stderr.write(self.log.read())
            raise
        return self

    def __exit__(self, *unused):
        self.process.terminate()
        self.process.wait()

    def text(self):
        self.log.seek(0)
        return self.log.read()

    def ask(self, body, key="x", connection=None):
        """The moments at which a stream's parts came, from the request on."""
        own = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        begin = time.monotonic()
        own.request("POST", "/v1/completions", json.dumps({"stream": True, "temperature": 0, "ignore_eos": True, **body}),
                    {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
        reply = own.getresponse()
        times = []
        for line in reply:
            if line.startswith(b"data: {"):
                times.append(time.monotonic() - begin)
        assert reply.status == 200 and times, (reply.status, self.text()[-2000:])
        if connection is None:
            own.close()
        return times


def made_model(options):
    """The model and one adapter, as folders that are kept."""
    folder = pathlib.Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    shape = folder / "shape.json"
    shape.write_text(json.dumps(SHAPE))
    if not (folder / "model").exists():
        make_model(shape, folder / "unfinished")
        (folder / "unfinished").rename(folder / "model")
    make_adapters(shape, folder / "model", folder / "adapters", 1, RANK)
    return folder / "model", folder / "adapters" / "a0"


def beside(options):
    model, adapter = made_model(options)
    source = pathlib.Path(tempfile.mkdtemp(prefix="graft-hub-", dir=options.cache))
    cache = pathlib.Path(tempfile.mkdtemp(prefix="graft-cache-", dir=options.cache))
    try:
        # Not fit to be served, so that the fetch alone is measured: its config is checked last.
        for i in range(options.rounds):
            repo = source / "org" / f"a{i}"
            repo.mkdir(parents=True)
            (repo / "adapter_config.json").write_text((adapter / "adapter_config.json").read_text().replace(
                '"peft_type"', '"use_dora": true, "peft_type"'))
            os.symlink(adapter / "adapter_model.safetensors", repo / "adapter_model.safetensors")
        with StaticHub(source, options.rate, nice=19) as hub, \
                Server(options, model, "--source", "hub=hf:", "--allow", "hub/org/*", env=environment(hub, cache)) as server:
            server.ask({"model": "base", "prompt": "It was", "max_tokens": 20})
            gaps = {"alone": [], "beside": []}
            for i in range(options.rounds):
                for side in ("alone", "beside") if i % 2 == 0 else ("beside", "alone"):
                    fetching = {}
                    worker = threading.Thread(target=fetch_one, args=(server, f"hub/org/a{i}", fetching))
                    stop = [0.0, 1e9]
                    if side == "beside":
                        worker.start()
                        time.sleep(0.05)
                    begin = time.monotonic()
                    times = server.ask({"model": "base", "prompt": "It was", "max_tokens": options.tokens})
                    if side == "beside":
                        worker.join()
                        stop[1] = fetching["end"] - begin
                    gaps[side] += [b - a for a, b in zip(times[1:], times[2:]) if b < stop[1]]
            alone, with_fetch = (statistics.median(gaps[side]) for side in ("alone", "beside"))
            print("median time between tokens: alone %.3f ms (%d), beside a fetch at %s a connection %.3f ms (%d): %+.1f %%"
                  % (1e3 * alone, len(gaps["alone"]), options.rate, 1e3 * with_fetch, len(gaps["beside"]),
                     100 * (with_fetch / alone - 1)))
            print("mean: alone %.3f ms, beside %.3f ms: %+.1f %%"
                  % (1e3 * statistics.mean(gaps["alone"]), 1e3 * statistics.mean(gaps["beside"]),
                     100 * (statistics.mean(gaps["beside"]) / statistics.mean(gaps["alone"]) - 1)))
    finally:
        shutil.rmtree(cache)
        shutil.rmtree(source)


def fetch_one(server, model, result):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
    connection.request("POST", "/v1/completions", json.dumps({"model": model, "prompt": "x", "max_tokens": 1}),
                       {"Content-Type": "application/json"})
    reply = connection.getresponse()
    assert reply.status == 400 and b"use_dora" in reply.read()
    result["end"] = time.monotonic()


@contextlib.contextmanager
def moto_store():
    import boto3
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_listening(port, process)
        url = f"http://127.0.0.1:{port}"
        s3 = boto3.client("s3", aws_access_key_id="planted", aws_secret_access_key="planted", region_name="us-east-1",
                          endpoint_url=url)
        s3.create_bucket(Bucket="shelf")
        yield url, s3
    finally:
        process.kill()
        process.wait()


def cold(options):
    model, adapter = made_model(options)
    cache = pathlib.Path(tempfile.mkdtemp(prefix="graft-cache-", dir=options.cache))
    try:
        with moto_store() as (url, s3):
            for i in range(options.rounds):
                for path in adapter.iterdir():
                    # Each round's is another adapter: the server has none of its content.
                    s3.put_object(Bucket="shelf", Key=f"a{i}/{path.name}", ChecksumAlgorithm="SHA256",
                                  Body=path.read_bytes() + (b" " * (i + 1) if path.suffix == ".json" else b""))
            env = {**environment(argparse.Namespace(port=1), cache), "AWS_ENDPOINT_URL_S3": url, "AWS_ACCESS_KEY_ID": "planted",
                   "AWS_SECRET_ACCESS_KEY": "planted", "XDG_CACHE_HOME": str(cache)}
            with Server(options, model, "--source", "shelf=s3://shelf", "--allow", "shelf/*", env=env) as server:
                warm = statistics.median(server.ask({"model": "base", "prompt": "It was", "max_tokens": 1})[0]
                                         for _ in range(5))
                rows = []
                for i in range(options.rounds):
                    first = server.ask({"model": f"shelf/a{i}", "prompt": "It was", "max_tokens": 1})[0]
                    again = server.ask({"model": f"shelf/a{i}", "prompt": "It was", "max_tokens": 1})[0]
                    told = re.findall(r"bytes fetched in ([0-9.]+) s, listed in ([0-9.]+) s", server.text())[-1]
                    transfer, listing = map(float, told)
                    rows.append((first - transfer, first, transfer, listing, again))
                    print("first answer after %.3f s: transfer %.3f s, checked and listed %.3f s, the rest %.3f s; "
                          "the second after %.3f s" % (first, transfer, listing, first - transfer - listing, again), flush=True)
                print("beyond the transfer: median %.0f ms, least %.0f ms; the base's first token %.0f ms"
                      % (1e3 * statistics.median(row[0] for row in rows), 1e3 * min(rows)[0], 1e3 * warm))
    finally:
        shutil.rmtree(cache)


class Refusals(Nginx):
    """Each request is answered with 404: a flood of them takes the processors of its client, and none of Graft's."""

    def __init__(self):
        super().__init__()
        body = json.dumps({"error": "x" * 150})
        self.configure("keepalive_requests 100000000;",
                       f"location / {{ default_type application/json; return 404 '{body}'; }}")


class Flood:
    """Requests at a rate, over a few connections, in a process of its own."""

    CODE = r"""
import json, socket, sys, time
port, rate, key, pattern = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4]
sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
begin, sent, statuses = time.monotonic(), 0, {}
while True:
    for one in sockets:
        body = json.dumps({"model": pattern % sent, "prompt": "x", "max_tokens": 1}).encode()
        one.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s" % (key.encode(), len(body), body))
        sent += 1
    for one in sockets:
        data = b""
        while b"\r\n\r\n" not in data:
            data += one.recv(65536)
        head, _, rest = data.partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        while len(rest) < length:
            rest += one.recv(65536)
        status = head.split()[1].decode()
        statuses[status] = statuses.get(status, 0) + 1
    print(json.dumps([sent / (time.monotonic() - begin), statuses]), flush=True)
    time.sleep(max(0, begin + sent / rate - time.monotonic()))
"""

    def __init__(self, port, rate, key, pattern):
        self.args = [sys.executable, "-c", self.CODE, str(port), str(rate), key, pattern]

    def __enter__(self):
        self.out = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(self.args, stdout=self.out)
        time.sleep(0.5)
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        self.out.seek(0)
        lines = self.out.read().splitlines()
        self.rate, self.statuses = json.loads(lines[-1] if lines[-1].endswith("]") else lines[-2])


def unknown(options):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="graft-unknown-"))
    sys.path.insert(0, str(ROOT / "tests"))
    try:
        (folder / "hub" / "acme").mkdir(parents=True)
        port, log = free_port(), folder / "log"
        hub = subprocess.Popen(["nice", "-n", "19", sys.executable, str(ROOT / "tests" / "fake_hub.py"), str(folder / "hub"),
                                "--port", str(port),
                                "--cdn-port", str(free_port()), "--log", str(log)])
        wait_listening(port, hub)
        keys = folder / "keys.json"
        keys.write_text(json.dumps([{"key": f"key-{tenant}", "tenant": tenant, "adapters": ["*"]} for tenant in "ab"]))
        env = environment(argparse.Namespace(port=port), folder / "cache")
        with Server(options, ROOT / "demo" / "base", "--adapters", ROOT / "demo" / "adapters", "--source", "hub=hf:", "--allow",
                    "hub/acme/*", "--api-keys", keys, "--log-level", "warn", env=env) as server, Refusals() as refusals:
            first = {"alone": [], "control": [], "outside": [], "allowed": []}
            told = {}

            def measure(side):
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
                for _ in range(options.requests):
                    first[side].append(server.ask({"model": "austen", "prompt": "It was", "max_tokens": 2}, "key-b",
                                                  connection)[0])
            measure("alone")
            first["alone"].clear()
            for _ in range(options.rounds):
                measure("alone")
                for side, port, pattern in (("control", refusals.port, "elsewhere/x%d"), ("outside", server.port, "elsewhere/x%d"),
                                            ("allowed", server.port, "hub/acme/x%d")):
                    with Flood(port, options.rate_names, "key-a", pattern) as flood:
                        measure(side)
                    told[side] = flood
            asked = [json.loads(line)["path"] for line in log.read_text().splitlines()] if log.exists() else []
            alone = p99(first["alone"])
            print("another tenant's first token, P50 and P99: alone %.2f / %.2f ms" % (p50(first["alone"]), alone))
            for side, what in (("control", "requests that another server refuses"), ("outside", "names outside the allow list"),
                               ("allowed", "names inside it that are not there")):
                print("beside %.0f a second of %s: %.2f / %.2f ms, %.2f of alone, %.2f of beside another server's; answers %s"
                      % (told[side].rate, what, p50(first[side]), p99(first[side]), p99(first[side]) / alone,
                         p99(first[side]) / p99(first["control"]), told[side].statuses))
            outside = [path for path in asked if "/acme/" not in path]
            print("requests at the hub: %d for allowed names, %d for others" % (len(asked) - len(outside), len(outside)))
    finally:
        hub.kill()
        hub.wait()
        shutil.rmtree(folder)


def p50(seconds):
    return 1e3 * statistics.median(seconds)


def p99(seconds):
    return 1e3 * sorted(seconds)[int(0.99 * len(seconds))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", choices=["fetch", "beside", "cold", "unknown"])
    parser.add_argument("--binary", default=str(ROOT / "build" / "release" / "graft"))
    parser.add_argument("--folder", default="/tmp/graft-sources", help="of the model and the adapter, which are kept")
    parser.add_argument("--cache", default="/dev/shm", help="where files are fetched to")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mib", type=int, default=300)
    parser.add_argument("--shards", type=int, default=6)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--rate", default="0", help="nginx's limit for each connection: 10m; 0: none")
    parser.add_argument("--rate-names", type=float, default=1000)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1, help="of the server's kernels")
    options = parser.parse_args()
    {"fetch": fetch, "beside": beside, "cold": cold, "unknown": unknown}[options.figure](options)


if __name__ == "__main__":
    main()
