"""Several processes behind one address: a frontend and its runners on the demo model. Answers are a single process's, also
while runners are killed, stopped and drained."""

import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import socket
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

import openai
import pytest

from conftest import ADMIN_KEY, DEMO, ENDS, ROOT, Server, binary, free_port, model_that_reasons

pytestmark = pytest.mark.skipif(not os.path.exists(os.path.join(os.path.dirname(binary()), "libgraft_cluster.so")),
                                reason="built without gRPC")
LITTLE = ("--threads", 1, "--host-gib", 0.1)
SMALL = (*LITTLE, "--pool-gib", 0.1)
# Every runner has requests: auto leaves one idle, or avoids it, where that costs nobody anything.
EVENLY = ("--placement", "most-idle")


class Process:
    """A graft subcommand whose log is read as it comes."""

    def __init__(self, *args, env=None):
        self.args = [binary(), *map(str, args)]
        self.env = {**os.environ, **(env or {})}
        self.lines = []
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.args, env=self.env, stderr=subprocess.PIPE, text=True)
        threading.Thread(target=self._read, args=(self.process.stderr,), daemon=True).start()
        return self

    def _read(self, stream):
        for line in stream:
            self.lines.append(line)

    def log(self):
        return "".join(self.lines)

    def wait_for(self, pattern, count=1, timeout_s=120):
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if len(re.findall(pattern, self.log())) >= count:
                return
            if self.process.poll() is not None:
                time.sleep(0.2)
                break
            time.sleep(0.02)
        assert len(re.findall(pattern, self.log())) >= count, f"no '{pattern}' in:\n{self.log()}"

    def send(self, sig):
        self.process.send_signal(sig)

    def stop(self, sig=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(sig)
        return self.process.wait(60)


class Runner(Process):
    def __init__(self, *args, model=DEMO / "base", adapters=DEMO / "adapters", pool_gib=0.1):
        self.port = free_port()
        super().__init__("runner", "--model", model, "--adapters", adapters, "--rpc-port", self.port, *LITTLE,
                         "--pool-gib", pool_gib, "--quiet", *args)

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"


class Frontend(Process):
    def __init__(self, runners, *args, model=DEMO / "base"):
        self.port = free_port()
        known = ("--runners", ",".join(one.address for one in runners)) if runners else ()
        super().__init__("frontend", "--model", model, *known, "--port", self.port, "--quiet", *args)
        self.url = f"http://127.0.0.1:{self.port}"

    client = Server.client

    def ready(self):
        try:
            with urllib.request.urlopen(self.url + "/ready", timeout=60) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


@pytest.fixture(scope="module")
def single():
    with Server(*SMALL) as running:
        yield running


@pytest.fixture(scope="module")
def cluster():
    """Three runners, and a frontend that has seen all of them."""
    runners = [Runner("--drain-seconds", 20).start() for _ in range(3)]
    for runner in runners:
        runner.wait_for("runner of")
    frontend = Frontend(runners, "--admin-key", ADMIN_KEY, *EVENLY).start()
    frontend.wait_for("is up", count=3)
    frontend.wait_for("frontend of")
    yield frontend, runners
    codes = [process.stop() for process in [frontend, *runners]]
    assert codes == [0] * 4, frontend.log() + "".join(runner.log() for runner in runners)


MODELS = ("base", "austen", "wells", "carroll")


def asked(i, max_tokens, models=MODELS):
    """Greedy and sampled, base and adapters, plain and with everything that depends on what was drawn."""
    request = {"model": models[i % len(models)], "prompt": f"It was {'a very ' * (i % 5)}long day, and", "max_tokens": max_tokens,
               "temperature": 0 if i % 2 == 0 else 1.1, "seed": 100 + i, "extra_body": {"ignore_eos": True}}
    if i % 3 == 1:
        request |= {"frequency_penalty": 0.4, "presence_penalty": 0.3, "logprobs": 2}
    return request


def answer_of(client, request):
    reply = client.completions.create(**request)
    return [(choice.text, choice.finish_reason, choice.logprobs) for choice in reply.choices]


def streamed(client, request, heard):
    """The whole text of a stream; `heard` is told of every piece."""
    text, reason = "", None
    for chunk in client.completions.create(**request, stream=True):
        text += chunk.choices[0].text
        reason = chunk.choices[0].finish_reason or reason
        heard()
    return text, reason


def test_answers_are_a_single_processes(single, cluster):
    frontend, _ = cluster
    ours, theirs = frontend.client(), single.client()
    assert sorted(model.id for model in ours.models.list()) == sorted(model.id for model in theirs.models.list())
    requests = [asked(i, 12) for i in range(8)]
    requests.append(asked(1, 12) | {"n": 3})
    requests.append(asked(2, 40) | {"stop": ["the", "and"]})
    sums = [{"adapters": [{"name": "austen", "weight": 0.7}, {"name": "carroll", "weight": weight}]} for weight in (0.5, -0.5)]
    requests += [asked(0, 12) | {"extra_body": added} for added in sums]
    for request in requests:
        assert answer_of(ours, request) == answer_of(theirs, request), request
    chat = {"model": "doyle", "messages": [{"role": "user", "content": "Who are you?"}], "max_tokens": 12, "temperature": 0}
    assert (ours.chat.completions.create(**chat).choices[0].message.content ==
            theirs.chat.completions.create(**chat).choices[0].message.content)
    for ask in ({"model": "base"}, {"model": "wells"}):
        vectors = [client.embeddings.create(input=["One text.", [5, 6, 7]], encoding_format="float", **ask).data
                   for client in (ours, theirs)]
        assert [one.embedding for one in vectors[0]] == [one.embedding for one in vectors[1]]
        texts = []
        for client in ours, theirs:
            first = client.responses.create(input="Begin.", max_output_tokens=6, temperature=0, **ask)
            texts.append(client.responses.create(input="And then?", max_output_tokens=6, temperature=0,
                                                 previous_response_id=first.id, **ask).output_text)
        assert texts[0] == texts[1]
    with pytest.raises(Exception, match="austin"):
        ours.completions.create(model="austin", prompt="x")


BOUND = [{"guided_regex": "[0-9]{3}(-[a-f]{2,5}){4,9}"}, {"guided_choice": ["a dark night", "a bright day"]},
         {"guided_json": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
                          "required": ["a", "b"]}}]


@pytest.mark.skipif(not (ROOT / "build" / "grammar" / "libgraft_grammar.so").exists(), reason="needs make grammar")
def test_bound_answers_are_a_single_processes(single, cluster):
    """The runners bind them; the frontend knows nothing of grammars."""
    frontend, _ = cluster
    for i, form in enumerate(2 * BOUND):
        request = asked(i, 60) | {"extra_body": form}
        ours, theirs = answer_of(frontend.client(), request), answer_of(single.client(), request)
        assert ours == theirs
        text, reason, _ = ours[0]
        if "guided_choice" in form:
            assert text in form["guided_choice"]
        elif "guided_regex" in form and reason == "stop":
            assert re.fullmatch(form["guided_regex"], text)
        elif reason == "stop":
            assert isinstance(json.loads(text)["b"], int)
    with pytest.raises(openai.BadRequestError, match="cannot be compiled"):
        frontend.client().completions.create(model="base", prompt="x", extra_body={"guided_regex": "("})


def test_reasoning_ends_where_it_has_had_its_tokens_also_on_another_runner(tmp_path):
    """The budget travels with the request, and what of it is used with the tokens."""
    model = model_that_reasons(tmp_path / "base")
    runners = [Runner(model=model).start() for _ in range(2)]
    for runner in runners:
        runner.wait_for("runner of")
    frontend = Frontend(runners, *EVENLY, model=model).start()
    frontend.wait_for("is up", count=2)
    frontend.wait_for("frontend of")

    def tokens_of(budget, heard=lambda: None):
        ids = []
        for chunk in frontend.client().chat.completions.create(
                model="base", messages=[{"role": "user", "content": "It was"}], temperature=0, max_tokens=96, stream=True,
                logit_bias={str(ENDS): -100, "1": -100},
                extra_body={"return_token_ids": True, "thinking_token_budget": budget}):
            ids += getattr(chunk.choices[0], "token_ids", None) or []
            heard()
        return ids

    free = tokens_of(-1)
    begun = threading.Barrier(3)

    def disturbed():
        pieces = []

        def heard():
            pieces.append(None)
            if len(pieces) == 2:
                begun.wait(60)
        return tokens_of(64, heard)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(disturbed) for _ in runners]
        begun.wait(60)
        runners[0].stop(signal.SIGKILL)
        bound = [answer.result() for answer in answers]
    assert len(free) == 96 and ENDS not in free
    assert bound[0] == bound[1] and bound[0][:64] == free[:64] and bound[0].index(ENDS) == 64
    assert "go on elsewhere" in frontend.log()
    assert [one.stop() for one in (frontend, runners[1])] == [0] * 2


def test_a_requests_id_and_trace_are_in_the_logs_of_both_machines(cluster):
    frontend, runners = cluster
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    frontend.client(ADMIN_KEY).completions.create(**asked(1, 5),
                                                  extra_headers={"X-Request-Id": "cluster-7", "traceparent": trace})
    key = f"key={hashlib.sha256(ADMIN_KEY.encode()).hexdigest()[:12]} tenant=admin"
    frontend.wait_for(f"request id=cluster-7 .*traceparent={trace} {key}")
    lines, deadline = [], time.monotonic() + 120
    while not lines and time.monotonic() < deadline:
        time.sleep(0.02)
        lines = [line for runner in runners for line in runner.lines if "request id=cluster-7 " in line]
    assert len(lines) == 1 and "end=length" in lines[0] and "output_tokens=5" in lines[0], lines
    assert f"traceparent={trace} {key}" in lines[0]


def test_adapters_are_those_of_the_runners_folders(cluster):
    request = urllib.request.Request(cluster[0].url + "/v1/unload_lora_adapter", data=b'{"lora_name": "austen"}',
                                     headers={"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "application/json"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    assert refused.value.code >= 400 and "runners' folders" in json.loads(refused.value.read())["error"]["message"]


def run_streams(frontend, single, disturb, max_tokens=96, models=MODELS, count=16):
    """Streams that are disturbed once all have begun: none may lose, double or change a token."""
    requests = [asked(i, max_tokens, models) for i in range(count)]
    got = [None] * count
    pieces = [0] * count

    def run(i):
        def heard():
            pieces[i] += 1
        try:
            got[i] = streamed(frontend.client(), requests[i], heard)
        except Exception as error:  # shown below, beside what was wanted
            got[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    while min(pieces) < 2 and any(thread.is_alive() for thread in threads):
        time.sleep(0.005)
    disturb()
    for thread in threads:
        thread.join()
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        wanted = [answer[0][:2] for answer in pool.map(lambda request: answer_of(single.client(), request), requests)]
    assert got == wanted


def test_a_runner_out_of_pages_gives_its_newest_to_one_with_room(single):
    """The small one holds four of the answers, and is given about eight."""
    small = Runner("--context-tokens-max", 256, pool_gib=0.003).start()
    large = Runner().start()
    for runner in (small, large):
        runner.wait_for("runner of")
    frontend = Frontend([small, large], *EVENLY).start()
    frontend.wait_for("is up", count=2)
    frontend.wait_for("frontend of")
    run_streams(frontend, single, lambda: None, models=("base",))
    assert f"a request that runner {small.address} had no pages for goes on at {large.address}" in frontend.log()
    assert [one.stop() for one in (frontend, small, large)] == [0] * 3


def test_streams_go_on_when_a_runner_is_killed(single, cluster):
    frontend, runners = cluster
    run_streams(frontend, single, lambda: runners[0].stop(signal.SIGKILL))
    assert "go on elsewhere" in frontend.log()
    ups = frontend.log().count("is up")
    runners[0].start()
    frontend.wait_for("is up", count=ups + 1)


def test_streams_go_on_when_a_runner_is_stopped(single, cluster):
    frontend, runners = cluster
    run_streams(frontend, single, lambda: runners[1].send(signal.SIGSTOP))
    assert "has been silent" in frontend.log()
    ups = frontend.log().count("is up")
    runners[1].send(signal.SIGCONT)
    frontend.wait_for("is up", count=ups + 1)
    # It has let go of what others go on with, and answers as ever.
    runners[1].wait_for("has gone")
    newcomer = Frontend(runners[1:2]).start()
    newcomer.wait_for("is up")
    newcomer.wait_for("frontend of")
    assert answer_of(newcomer.client(), asked(1, 12)) == answer_of(single.client(), asked(1, 12))
    assert newcomer.stop() == 0


def test_a_frontend_that_is_stopped_holds_up_nobody(single, cluster):
    frontend, runners = cluster
    stopped = Frontend(runners, *EVENLY).start()
    stopped.wait_for("is up", count=3)
    stopped.wait_for("frontend of")

    def stop_it():
        stopped.send(signal.SIGSTOP)
        run_streams(frontend, single, lambda: None)
        for runner in runners:
            runner.wait_for("for 3.0 s: its requests are cancelled")
        stopped.send(signal.SIGCONT)
    run_streams(stopped, single, stop_it, max_tokens=200, count=8)
    assert stopped.stop() == 0


def test_streams_go_on_when_a_runner_is_drained(single, cluster):
    frontend, runners = cluster
    run_streams(frontend, single, lambda: runners[2].send(signal.SIGTERM))
    assert runners[2].process.wait(60) == 0, runners[2].log()
    assert f"runner {runners[2].address} drains" in frontend.log()
    ups = frontend.log().count("is up")
    runners[2].start()
    frontend.wait_for("is up", count=ups + 1)


def test_a_frontend_that_starts_before_its_runner():
    """It says that nobody listens, and finds the runner as soon as that serves."""
    runner = Runner()
    frontend = Frontend([runner]).start()
    frontend.wait_for("is down: nobody listens there")
    frontend.wait_for("frontend of")
    status, body = frontend.ready()
    assert status == 503 and "nobody listens there" in body and "TLS" not in body
    runner.start().wait_for("runner of")
    frontend.wait_for("is up")
    assert frontend.ready()[0] == 200
    assert [frontend.stop(), runner.stop()] == [0, 0]


def test_a_request_that_kills_its_runners_is_given_up(single):
    """The runner is killed whenever the request is in its steps, which one row at a time keeps it for seconds. Another
    request goes on."""
    runner = Runner("--tune", "prefill-chunk-max=1").start()
    runner.wait_for("runner of")
    # However long a busy machine takes to start the runner anew.
    frontend = Frontend([runner], "--runner-wait-seconds", 600).start()
    frontend.wait_for("is up")
    frontend.wait_for("frontend of")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        poison = pool.submit(frontend.client().completions.create, model="base", prompt="poison " * 450, max_tokens=1)
        other = pool.submit(answer_of, frontend.client(), asked(1, 24))
        deaths = 0
        while not poison.done() and deaths < 20:  # it may not have come to a step before one of them
            time.sleep(0.15 + 0.05 * deaths)  # a busy machine may need longer for a step to be told
            runner.stop(signal.SIGKILL)
            deaths += 1
            runner.start()
            frontend.wait_for("is up", count=deaths + 1)
        with pytest.raises(openai.InternalServerError, match="4 runners died in steps with this request"):
            poison.result(60)
        assert other.result(60) == answer_of(single.client(), asked(1, 24))
    assert [frontend.stop(), runner.stop()] == [0, 0]


def test_another_base_is_refused_with_what_to_start(tmp_path, cluster):
    _, runners = cluster
    other = tmp_path / "other"
    shutil.copytree(DEMO / "base", other)
    with open(other / "tokenizer.json", "a", encoding="utf-8") as file:
        file.write("\n")
    frontend = Frontend(runners[:1], model=other).start()
    frontend.wait_for("serves another base model .*start the runner with")
    status, body = frontend.ready()
    assert status == 503 and "another base model" in body
    with pytest.raises(Exception, match="no runner is up"):
        frontend.client().completions.create(model="other", prompt="x")
    assert frontend.stop() == 0


def make_authority(folder, name, address="127.0.0.1"):
    """A CA and a certificate of it for this machine, which others call by that address."""
    folder.mkdir()

    def openssl(*args):
        subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, cwd=folder)
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "ca.key", "-out",
            "ca.pem", "-days", 2, "-subj", f"/CN={name}")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "key.pem", "-out",
            "request.pem", "-subj", "/CN=machine")
    (folder / "names").write_text(f"subjectAltName=IP:{address},DNS:localhost\n")
    openssl("x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "cert.pem",
            "-days", 2, "-extfile", "names")
    return folder


def test_certificates_of_another_authority_are_refused(tmp_path):
    ours = make_authority(tmp_path / "ours", "ours")
    theirs = make_authority(tmp_path / "theirs", "theirs")

    def tls(cert, ca):
        return "--rpc-cert", cert / "cert.pem", "--rpc-key", cert / "key.pem", "--rpc-ca", ca / "ca.pem"
    runner = Runner(*tls(ours, ours)).start()
    runner.wait_for("runner of")
    welcome = Frontend([runner], *tls(ours, ours)).start()
    stranger = Frontend([runner], *tls(theirs, ours)).start()
    mistaken = Frontend([runner], *tls(ours, theirs)).start()
    plain = Frontend([runner]).start()
    welcome.wait_for("is up")
    assert welcome.client().completions.create(model="austen", prompt="It", max_tokens=2).usage.completion_tokens == 2
    stranger.wait_for("does not take this machine's certificate")
    mistaken.wait_for("is not signed by --rpc-ca")
    plain.wait_for("if it wants TLS: --rpc-cert")
    assert [one.ready()[0] for one in (stranger, mistaken, plain)] == [503] * 3
    assert [one.stop() for one in (welcome, stranger, mistaken, plain, runner)] == [0] * 5


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
        return True
    except OSError:
        return False


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_a_runner_listens_on_ipv6(host):
    runner = Runner("--rpc-host", host).start()
    runner.wait_for(re.escape(f"runner of base on [::1]:{runner.port}"))
    frontend = Frontend([], "--runners", f"[::1]:{runner.port}", "--host", host).start()
    frontend.wait_for("is up")
    frontend.wait_for(re.escape(f"serving on http://[::1]:{frontend.port}"))
    assert [frontend.stop(), runner.stop()] == [0, 0]


def test_a_program_without_the_library_says_what_is_missing(tmp_path):
    shutil.copy(binary(), tmp_path / "graft")
    for command in (["runner", "--model", DEMO / "base"], ["frontend", "--model", DEMO / "base", "--runners", "localhost:1"]):
        done = subprocess.run([tmp_path / "graft", *map(str, command)], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode != 0 and "libgraft_cluster.so" in done.stderr
    alone = subprocess.run([tmp_path / "graft", "generate", "--model", DEMO / "base", "--prompt", "It", "--max-tokens", "1"],
                           capture_output=True, text=True, timeout=60, check=False)
    assert alone.returncode == 0, alone.stderr


PLACEMENTS = ("most-idle", "punica", "first-fit", "random", "rendezvous", "min-cost-flow", "caraserve", "auto")


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_every_placement_serves_what_one_process_does(single, cluster, placement):
    requests = [asked(i, 24) for i in range(12)]
    with concurrent.futures.ThreadPoolExecutor(12) as threads:
        expected = list(threads.map(lambda request: answer_of(single.client(), request), requests))
        frontend = Frontend(cluster[1][:2], "--placement", placement).start()
        frontend.wait_for("is up", count=2)
        frontend.wait_for("frontend of")
        assert list(threads.map(lambda request: answer_of(frontend.client(), request), requests)) == expected
    assert frontend.stop() == 0


def test_an_unknown_placement_is_refused_with_the_list():
    refused = subprocess.run([binary(), "frontend", "--model", DEMO / "base", "--runners", "localhost:1", "--placement", "best"],
                             capture_output=True, text=True)
    assert refused.returncode == 2
    for placement in PLACEMENTS:
        assert placement in refused.stderr


def test_costs_that_cannot_be_read_are_named(tmp_path):
    costs = tmp_path / "costs.json"
    costs.write_text('{"pads": false, "decode": {"base_ms": 1, "ms_per_unit": -1}}')
    refused = subprocess.run([binary(), "frontend", "--model", DEMO / "base", "--runners", "localhost:1", "--placement-costs", costs],
                             capture_output=True, text=True)
    assert refused.returncode != 0
    assert f"{costs}: decode.ms_per_unit must be a number, 0 or above" in refused.stderr
