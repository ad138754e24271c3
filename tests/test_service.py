"""graft serve as a service: signals, what a service manager is told, its log."""
import json
import signal
import socket
import subprocess
import urllib.error
import urllib.request

from conftest import ROOT, Server


def keys_file(path, *keys):
    path.write_text(json.dumps([{"key": key, "tenant": key, "adapters": ["*"]} for key in keys]))
    return path


def status_of(server, key):
    request = urllib.request.Request(server.url + "/v1/models", headers={"Authorization": f"Bearer {key}"})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code


class Manager:
    """The socket that a service manager listens on."""

    def __init__(self, folder):
        self.path = str(folder / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(60)

    def hear(self):
        return self.socket.recv(4096).decode()


def test_signals_and_what_the_manager_hears(tmp_path):
    keys = keys_file(tmp_path / "keys.json", "old")
    manager = Manager(tmp_path)
    with Server("--api-keys", keys, env={"NOTIFY_SOCKET": manager.path}) as server:
        assert manager.hear() == "READY=1"
        assert status_of(server, "old") == 200 and status_of(server, "new") == 401
        server.process.send_signal(signal.SIGUSR1)
        server.process.send_signal(signal.SIGUSR2)
        keys_file(keys, "new")
        server.process.send_signal(signal.SIGHUP)
        assert manager.hear().startswith("RELOADING=1\nMONOTONIC_USEC=")
        assert manager.hear() == "READY=1"
        assert status_of(server, "old") == 401 and status_of(server, "new") == 200
        keys.write_text("[")
        server.process.send_signal(signal.SIGHUP)
        assert manager.hear().startswith("RELOADING=1") and manager.hear() == "READY=1"
        assert status_of(server, "new") == 200
        assert server.stop() == 0
        assert manager.hear() == "STOPPING=1"
        log = server.log()
        assert "read anew" in log and str(keys) in log and "User defined signal 1" in log


def test_json_log_names_requests():
    with Server("--log-format", "json") as server:
        request = urllib.request.Request(
            server.url + "/v1/completions", data=b'{"model": "nobody\\n\\u001b[31m", "prompt": "x"}',
            headers={"Content-Type": "application/json", "X-Request-Id": "trace-7"})
        try:
            urllib.request.urlopen(request, timeout=60)
            assert False, "there is no such model"
        except urllib.error.HTTPError as error:
            assert error.code == 404 and error.headers["X-Request-Id"] == "trace-7"
        assert server.stop() == 0
        lines = [json.loads(line) for line in server.log().splitlines() if line.startswith("{")]
    [line] = [line for line in lines if line.get("id") == "trace-7"]
    assert line["status"] == 404 and line["method"] == "POST" and "nobody" in line["error"]
    assert any("serving on" in line["message"] for line in lines)


def test_nobody_reads_the_log():
    """At debug, with a pipe that is full, requests are answered and the server ends."""
    with Server("--log-level", "debug") as server:
        path = "/v1/models/" + "x" * 200
        for _ in range(1000):  # a few times what a pipe holds
            try:
                urllib.request.urlopen(server.url + path, timeout=60)
            except urllib.error.HTTPError as error:
                assert error.code == 404
        with urllib.request.urlopen(server.url + "/health", timeout=60) as reply:
            assert reply.status == 200
        assert server.stop() == 0


def test_too_few_descriptors_are_said():
    server = Server("--connections-max", "8192")
    server.args = ["bash", "-c", 'ulimit -n 256; exec "$0" "$@"', *server.args]
    with server:
        idle = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(300)]
        with urllib.request.urlopen(server.url + "/health", timeout=60) as reply:
            assert reply.status == 200
        for connection in idle:
            connection.close()
        assert server.stop() == 0
        log = server.log()
    assert "--connections-max" in log and "ulimit -n" in log


def test_wild_thread_counts_are_refused():
    server = Server("--http-threads", "100000")
    process = subprocess.run(server.args, capture_output=True, text=True, timeout=120)
    assert process.returncode == 2 and "--http-threads" in process.stderr and "between 1 and 256" in process.stderr


def test_units_keep_what_is_fetched_where_they_may_write():
    lines = (ROOT / "packaging" / "service.in").read_text().splitlines()
    settings = dict(line.removeprefix("Environment=").split("=", 1) for line in lines if "=" in line and line[0] != "#")
    assert settings["HF_HOME"].startswith(f"/var/cache/{settings['CacheDirectory']}/")
    assert f"{settings['XDG_CACHE_HOME']}/graft" == f"/var/cache/{settings['CacheDirectory']}"


def test_the_image_has_certificates_where_they_are_looked_for():
    lines = (ROOT / "packaging" / "Containerfile").read_text().splitlines()
    [copied] = [line.split() for line in lines if line.startswith("COPY --from=certificates ")]
    assert f'"{copied[-1]}"' in (ROOT / "src" / "sources" / "web_connection.cc").read_text()
