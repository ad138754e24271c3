"""The dashboard in headless Chromium, over a frontend with three runners and a single server, both under load. Every
figure on the page is the sum of series of /metrics, and the same number there. The stage `dashboard` of `make test-all`
runs this. With GRAFT_SCREENSHOTS=FOLDER it leaves pictures there."""

import concurrent.futures
import http.server
import json
import os
import pathlib
import re
import struct
import threading
import time
import urllib.request

import pytest

from browser import Browser, program
from conftest import ADMIN_KEY, DEMO, Server
from test_cluster import SMALL, Frontend, Runner
from test_learning_jobs import ARGS, create, upload, wait_for

pytestmark = pytest.mark.skipif(program() is None, reason="no Chromium: tools/install.sh test-all")
MODELS = ("base", "austen", "wells", "carroll", "doyle")
REFRESH_MS_MAX = 100
# Each has to be in sight: a page that shows nothing would show nothing wrong.
FIGURES_MIN = 35


class Load:
    """Requests, some at once, until the end of a with."""

    def __init__(self, url, num_streams=4, key="none", models=MODELS):
        self.url, self.key, self.stopping, self.done = url, key, threading.Event(), 0
        self.models = models
        self.pool = concurrent.futures.ThreadPoolExecutor(num_streams)
        self.num_streams = num_streams

    def _run(self, idx):
        count = 0
        while not self.stopping.is_set():
            model = self.models[(idx + count * count) % len(self.models)]
            body = {"model": model, "prompt": f"Stream {idx} of {count}", "max_tokens": 40, "seed": count}
            request = urllib.request.Request(self.url + "/v1/completions", json.dumps(body).encode(),
                                             {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"})
            with urllib.request.urlopen(request, timeout=120) as reply:
                assert reply.status == 200
            count += 1
        return count

    def __enter__(self):
        self.streams = [self.pool.submit(self._run, idx) for idx in range(self.num_streams)]
        return self

    def __exit__(self, *unused):
        self.stopping.set()
        self.done = sum(stream.result() for stream in self.streams)


class Scrapes:
    """Pages of /metrics by their snapshots' numbers, taken more often than the dashboard takes its own."""

    def __init__(self, url):
        self.url, self.pages, self.stopping = url, {}, threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        while not self.stopping.is_set():
            with urllib.request.urlopen(self.url + "/metrics", timeout=30) as reply:
                page = reply.read().decode()
            self.pages[int(re.search(r"^graft_snapshot_number (\d+)$", page, re.M).group(1))] = page
            time.sleep(0.05)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.stopping.set()
        self.thread.join()


def series_of(page):
    """[(name, labels, value)] of a page of /metrics."""
    found = []
    for line in page.splitlines():
        match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
        if match:
            labels = dict(re.findall(r'(\w+)="([^"]*)"', match.group(2) or ""))
            found.append((match.group(1), labels, float(match.group(3))))
    return found


def sum_of(series, selector):
    name, wanted = re.fullmatch(r"(\w+)(?:\{(.*)\})?", selector).groups()
    wanted = dict(re.findall(r'(\w+)="([^"]*)"', wanted or ""))
    values = [value for its, labels, value in series if its == name and wanted.items() <= labels.items()]
    return sum(values)


def quantile_of(series, name, share):
    """Prometheus' histogram_quantile."""
    buckets = sorted((float(labels["le"]), value) for its, labels, value in series if its == name + "_bucket")
    rank, below, before = share * buckets[-1][1], 0.0, 0.0
    for bound, count in buckets:
        if count >= rank:
            return below if bound == float("inf") else below + (bound - below) * (rank - before) / (count - before)
        below, before = bound, count
    return None


LATENCIES = {"first_token": "graft_time_to_first_token_seconds", "next_token": "graft_inter_token_seconds"}

FIGURES = """(() => ({
  snapshot: Number(document.documentElement.dataset.snapshot),
  series: [...document.querySelectorAll("[data-series]")].map((one) => [one.dataset.series, Number(one.dataset.value)]),
  latencies: [...document.querySelectorAll("[data-latency]")].map((one) => [one.dataset.latency, Number(one.dataset.value)]),
}))()"""


def check_figures(browser, url, families):
    """Of a snapshot that was scraped, too."""
    browser.wait_for(f"{REFRESHES} > 4")
    with Scrapes(url) as scrapes:
        deadline = time.monotonic() + 60
        while True:
            seen = browser.run(FIGURES)
            if seen["snapshot"] in scrapes.pages:
                break
            assert time.monotonic() < deadline, "no snapshot of the page was scraped"
            time.sleep(0.1)
        series = series_of(scrapes.pages[seen["snapshot"]])
    assert len(seen["series"]) >= FIGURES_MIN
    wrong = [(selector, value, sum_of(series, selector)) for selector, value in seen["series"]
             if value != pytest.approx(sum_of(series, selector), rel=1e-9)]
    assert not wrong
    for latency, value in seen["latencies"]:
        key, what = latency.split()
        wanted = (sum_of(series, LATENCIES[key] + "_count") if what == "count"
                  else quantile_of(series, LATENCIES[key], int(what[1:]) / 100))
        assert value == pytest.approx(wanted, rel=1e-9), latency
    shown = {selector.split("{")[0] for selector, _ in seen["series"]}
    assert families <= shown
    # What it shows is no page of zeros.
    assert sum_of(series, "graft_adapter_output_tokens_total") > 0


def data_of(url, since=0, key=None):
    request = urllib.request.Request(f"{url}/dashboard/data?since={since}",
                                     headers={"Authorization": f"Bearer {key}"} if key else {})
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.loads(reply.read())


REFRESHES = "Number(document.documentElement.dataset.refreshes)"


def check_page(browser):
    """A refresh is short, the drawing of the charts included, and the page has complained of nothing."""
    first, before = browser.run(REFRESHES), browser.cpu_seconds()
    browser.wait_for(f"{REFRESHES} >= {first + 10}")
    refresh_ms = 1000 * (browser.cpu_seconds() - before) / (browser.run(REFRESHES) - first)
    print(f"a refresh takes {refresh_ms:.1f} ms")
    assert 0 < refresh_ms <= REFRESH_MS_MAX
    assert browser.console == []


def look_narrow(browser, url, name, dark):
    """The same on a telephone: nothing is wider than the page."""
    browser.open(url + "/dashboard", width=390, dark=dark)
    browser.wait_for(f"{REFRESHES} > 2")
    assert browser.run("document.documentElement.scrollWidth") <= 390
    take_picture(browser, f"{name}-390")


def take_picture(browser, name):
    folder = os.environ.get("GRAFT_SCREENSHOTS")
    if folder:
        browser.screenshot(pathlib.Path(folder) / f"{name}.png")


@pytest.fixture
def browser(tmp_path):
    one = Browser(tmp_path)
    yield one
    one.close()


@pytest.fixture(scope="module")
def cluster():
    runners = [Runner().start() for _ in range(3)]
    for runner in runners:
        runner.wait_for("runner of")
    frontend = Frontend(runners).start()
    frontend.wait_for("is up", count=3)
    frontend.wait_for("frontend of")
    yield frontend, runners
    assert [process.stop() for process in (frontend, *runners)] == [0] * 4


@pytest.mark.parametrize("width,dark", [(1440, False), (390, True)])
def test_a_frontends_figures_are_those_of_metrics(cluster, browser, width, dark):
    frontend, _ = cluster
    with Load(frontend.url):
        browser.open(frontend.url + "/dashboard", width=width, dark=dark)
        check_figures(browser, frontend.url,
                      {"graft_runner_up", "graft_runner_pages", "graft_runner_requests_running", "graft_runner_step_rows",
                       "graft_runner_output_tokens_total", "graft_placements_total", "graft_migrations_total",
                       "graft_adapters", "graft_adapter_requests_total"})
        assert browser.run("document.querySelectorAll('#runners tbody tr').length") == 3
        assert browser.run("document.querySelectorAll('.chart canvas').length") >= 14
        # Nothing is wider than the page.
        assert browser.run("document.documentElement.scrollWidth") <= width
        take_picture(browser, f"frontend-{width}")
        check_page(browser)


def test_a_servers_figures_are_those_of_metrics(browser):
    with Server(*SMALL) as server, Load(server.url):
        browser.open(server.url + "/dashboard", dark=True)
        check_figures(browser, server.url,
                      {"graft_pages", "graft_requests_running", "graft_step_rows", "graft_output_tokens_total",
                       "graft_cold_starts_total", "graft_adapters", "graft_adapter_requests_total"})
        # Rounding that adds a digit brings no exponent.
        assert browser.run("[0.0996, 0.9996, 0.05, 1234.5].map(seconds)") == ["100 ms", "1000 ms", "50 ms", "1230 s"]
        assert browser.run("[999.96e6, 99.96].map(short)") == ["1000 M", "100"]
        take_picture(browser, "server-1440")
        check_page(browser)


JOBS = """[...document.querySelectorAll('#jobs tbody tr')].map((row) =>
  [row.cells[0].title.split(",")[0], row.querySelector(".chip").textContent])"""


def wait_for_jobs(browser, wanted, timeout_s=120):
    deadline = time.monotonic() + timeout_s
    while (seen := browser.run(JOBS)) != wanted:
        assert time.monotonic() < deadline, seen
        time.sleep(0.1)


def test_jobs_are_shown_as_they_come_run_and_end(tmp_path, browser):
    with Server(*ARGS, "--learn-dir", tmp_path / "learn") as server, Load(server.url, num_streams=2):
        browser.open(server.url + "/dashboard")
        browser.wait_for("document.getElementById('jobs').innerText.includes('No job has come yet.')")
        client = server.client()
        failed = create(client, upload(client, "Two words").id)
        wait_for(client, failed.id, "failed")
        file = upload(client).id
        running = create(client, file, hyperparameters={"n_epochs": 100_000}, suffix="long")
        queued = create(client, file)
        # The newest of those that are not finished first.
        wait_for_jobs(browser, [[queued.id, "queued"], [running.id, "running"], [failed.id, "failed"]])
        steps = "document.querySelectorAll('#jobs tbody tr')[1].cells[4].textContent"
        browser.wait_for(f"/^[0-9,]+ of [0-9,]+$/.test({steps})")
        browser.wait_for("document.getElementById('tiles').innerText.includes('1 queued, 0 succeeded, 1 failed')")
        check_figures(browser, server.url, {"graft_learning_jobs"})
        take_picture(browser, "jobs")
        check_page(browser)
        client.fine_tuning.jobs.cancel(running.id)
        name = wait_for(client, queued.id, "succeeded").fine_tuned_model
        wait_for_jobs(browser, [[queued.id, "succeeded"], [running.id, "cancelled"], [failed.id, "failed"]])
        assert browser.run("document.querySelector('#jobs tbody td').textContent") == name


def test_the_history_adds_up_to_the_counters(cluster):
    """Rates times intervals are what the runners' counters grew by."""
    frontend, _ = cluster
    begin = data_of(frontend.url)["history"]["next"]
    with Load(frontend.url):
        time.sleep(7)
    time.sleep(3)
    points = data_of(frontend.url, begin - 1)["history"]
    times, rates = points["times"], points["columns"]["output_tokens"]
    tokens = sum(rate * (times[i] - times[i - 1]) for i, rate in enumerate(rates) if i > 0)
    assert len(times) >= 4
    told = sum(value for _, value in data_of(frontend.url)["series"]["graft_runner_output_tokens_total"])
    before = sum_of(series_of(urllib.request.urlopen(frontend.url + "/metrics").read().decode()),
                    "graft_adapter_output_tokens_total")
    assert 0 < tokens <= told * 1.001
    assert told == before


def test_the_page_shows_a_runner_that_drains_and_goes(cluster, browser):
    frontend, _ = cluster
    more = Runner("--drain-seconds", 20).start()
    more.wait_for("runner of")
    other = Frontend([more]).start()
    try:
        other.wait_for("is up")
        browser.open(other.url + "/dashboard")
        chip = "document.querySelector('#runners .chip')?.textContent"
        browser.wait_for(f"{chip} === 'up'")
        more.stop()
        browser.wait_for(f"{chip} === 'down'")
        assert other.stop() == 0
        browser.wait_for("document.getElementById('live').textContent.startsWith('no answer')")
    finally:
        more.stop()
        other.stop()


def test_the_page_asks_for_the_admins_key(tmp_path, browser):
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps([{"key": "user-key", "tenant": "t", "adapters": ["*"]}]))
    with Server(*SMALL, "--api-keys", keys, "--admin-key", ADMIN_KEY) as server:
        browser.open(server.url + "/dashboard")
        browser.wait_for("!document.getElementById('login').hidden")
        assert browser.run("document.getElementById('main').hidden")
        give = "document.getElementById('key').value = '{}'; document.querySelector('#login button').click()"
        browser.run(give.format("user-key"))
        browser.wait_for("document.getElementById('why').textContent.includes('admin')")
        take_picture(browser, "login")
        browser.run(give.format(ADMIN_KEY))
        browser.wait_for("!document.getElementById('main').hidden")
        assert browser.run("document.getElementById('login').hidden")


def multiplied(data, is_first_look, num_runners, num_points, num_adapters):
    """A frontend's data, as if it had so many runners, and had run for an hour when the page first looked."""
    names = [labels["runner"] for labels, _ in data["series"]["graft_runner_up"]]
    for family, series in data["series"].items():
        if "runner" not in series[0][0]:
            continue
        data["series"][family] = [[{**labels, "runner": f"10.0.0.{idx}:7001"}, value] for idx in range(num_runners)
                                  for labels, value in series if labels["runner"] == names[idx % len(names)]]
    history = data["history"]
    if is_first_look:
        now = history["times"][-1]
        history["times"] = [now - 2 * (num_points - 1 - idx) for idx in range(num_points)]
        for name, column in history["columns"].items():
            known = [figure for figure in column if figure is not None]
            history["columns"][name] = [known[idx % len(known)] if known else None for idx in range(num_points)]
    data["adapters"] = [{**data["adapters"][idx % len(data["adapters"])], "name": f"tenant-{idx}/adapter"}
                        for idx in range(50)]
    data["series"]["graft_adapters"] = [[{"state": "folder"}, num_adapters]]
    return data


def cpu_seconds(process):
    with open(f"/proc/{process.pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def check_cost(browser, frontend):
    """A page costs a frontend that does nothing else a hundredth of a core. Its heartbeats are in both halves."""
    seconds = 10

    def used():
        before = cpu_seconds(frontend.process)
        time.sleep(seconds)
        return cpu_seconds(frontend.process) - before

    without = used()
    browser.open(frontend.url + "/dashboard")
    browser.wait_for(f"{REFRESHES} > 2")
    cost = used() - without
    print(f"a page costs {cost / seconds:.4f} of a core")
    assert cost <= 0.01 * seconds


def test_a_page_costs_a_hundredth_of_a_core(cluster, browser):
    check_cost(browser, cluster[0])


def make_adapters(folder, count):
    """PEFT folders of rank 1 on the queries of the demo's base model, each with other weights."""
    config = json.loads((DEMO / "adapters" / "austen" / "adapter_config.json").read_text())
    config.update(r=1, lora_alpha=1, target_modules=["q_proj"])
    base = json.loads((DEMO / "base" / "config.json").read_text())
    shapes = {"lora_A": (1, base["hidden_size"]), "lora_B": (base["num_attention_heads"] * base["head_dim"], 1)}
    header, offset = {}, 0
    for layer in range(base["num_hidden_layers"]):
        for half, shape in shapes.items():
            size = 2 * shape[0] * shape[1]
            name = f"base_model.model.model.layers.{layer}.self_attn.q_proj.{half}.weight"
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
            offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    for number in range(count):
        path = folder / f"tenant-{number:05d}"
        path.mkdir(parents=True)
        (path / "adapter_config.json").write_text(json.dumps(config))
        weights = bytearray(offset)
        weights[:2] = struct.pack("<H", 0x3C00 + number % 256)
        weights[2:4] = struct.pack("<H", 0x3C00 + number // 256)
        (path / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + weights)


def test_ten_thousand_adapters_are_shown_in_time(tmp_path, browser):
    """Real ones, which a runner has read, each with a content of its own."""
    count = 10000
    make_adapters(tmp_path / "adapters", count)
    runner = Runner(adapters=tmp_path / "adapters").start()
    try:
        runner.wait_for("runner of", timeout_s=500)
        with_room = Frontend([runner]).start()
        with_room.wait_for("is up")
        with_room.wait_for("frontend of")
        check_cost(browser, with_room)
        models = [f"tenant-{number:05d}" for number in range(0, count, count // 60)]
        with Load(with_room.url, models=models):
            browser.wait_for(f"{REFRESHES} > 2")
            tiles = "document.getElementById('tiles').innerText"
            browser.wait_for(f"{tiles}.includes('{count:,} listed')")
            browser.wait_for("document.querySelectorAll('#adapters tbody tr').length === 50")
            take_picture(browser, "ten-thousand-adapters")
            check_page(browser)
            look_narrow(browser, with_room.url, "ten-thousand-adapters", dark=True)
        assert with_room.stop() == 0
    finally:
        runner.stop()


class Multiplier(http.server.ThreadingHTTPServer):
    """A frontend's dashboard with more runners than this machine could run."""

    def __init__(self, url, **sizes):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # the library's name for it
                with urllib.request.urlopen(url + self.path, timeout=30) as reply:
                    body, headers = reply.read(), reply.headers
                if "/data" in self.path:
                    body = json.dumps(multiplied(json.loads(body), self.path.endswith("since=0"), **sizes)).encode()
                self.send_response(200)
                for name in ("Content-Type", "Content-Security-Policy"):
                    if headers[name]:
                        self.send_header(name, headers[name])
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *unused):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


def test_sixty_runners_and_an_hour_are_drawn_in_time(cluster, browser):
    frontend, _ = cluster
    with Load(frontend.url):
        time.sleep(3)
    many = Multiplier(frontend.url, num_runners=60, num_points=1800, num_adapters=10000)
    try:
        browser.open(many.url + "/dashboard", dark=True)
        browser.wait_for(f"{REFRESHES} > 2")
        browser.run("document.querySelector('[data-minutes=\"60\"]').click()")
        assert browser.run("document.querySelectorAll('#runners tbody tr').length") == 60
        assert browser.run("document.querySelectorAll('#adapters tbody tr').length") == 50
        assert "10,000 listed" in browser.run("document.getElementById('tiles').innerText")
        take_picture(browser, "sixty-runners")
        check_page(browser)
        look_narrow(browser, many.url, "sixty-runners", dark=False)
    finally:
        many.shutdown()
