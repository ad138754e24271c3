"""Traces of requests by OTLP over HTTP, to a collector of this test that takes nothing but what the protocol allows: a
single server's, and a frontend's with its runner's."""

import base64
import http.server
import json
import os
import re
import threading
import time
import urllib.request

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from conftest import Server, binary, free_port
from test_cluster import SMALL, Frontend, Runner

HAS_CLUSTER = os.path.exists(os.path.join(os.path.dirname(binary()), "libgraft_cluster.so"))
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
SPAN_KEYS = {"traceId", "spanId", "parentSpanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano", "flags",
             "attributes", "status"}


def attributes_of(given):
    """As OTLP's JSON has them: numbers of 64 bits are strings."""
    found = {}
    for attribute in given:
        assert set(attribute) == {"key", "value"}
        (kind, value), = attribute["value"].items()
        assert kind in ("stringValue", "intValue") and isinstance(value, str), attribute
        found[attribute["key"]] = int(value) if kind == "intValue" else value
    return found


def check_protobuf(message):
    """The protocol's own protobuf takes it: no field and no value that it does not know. OTLP writes ids in hexadecimal
    digits, where protobuf's JSON has base64."""
    given = [span for resource in message["resourceSpans"] for scope in resource["scopeSpans"] for span in scope["spans"]]
    plain = json.loads(json.dumps(message))
    for resource in plain["resourceSpans"]:
        for span in [span for scope in resource["scopeSpans"] for span in scope["spans"]]:
            for name in {"traceId", "spanId", "parentSpanId"} & set(span):
                span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    parsed = json_format.ParseDict(plain, ExportTraceServiceRequest())
    taken = [span for resource in parsed.resource_spans for scope in resource.scope_spans for span in scope.spans]
    assert len(taken) == len(given)
    for span, one in zip(given, taken):
        assert one.trace_id.hex() == span["traceId"] and one.span_id.hex() == span["spanId"] and one.name == span["name"]
        assert one.start_time_unix_nano == int(span["startTimeUnixNano"]) and one.kind == span["kind"]


def spans_of(message):
    """Those of an ExportTraceServiceRequest, checked field by field."""
    check_protobuf(message)
    assert set(message) == {"resourceSpans"}
    for resource in message["resourceSpans"]:
        assert set(resource) == {"resource", "scopeSpans"}
        its = attributes_of(resource["resource"]["attributes"])
        assert its["service.name"] == "graft"
        for scope in resource["scopeSpans"]:
            assert set(scope) == {"scope", "spans"} and scope["scope"]["name"] == "graft"
            for span in scope["spans"]:
                assert set(span) <= SPAN_KEYS, span
                assert re.fullmatch("[0-9a-f]{32}", span["traceId"]) and re.fullmatch("[0-9a-f]{16}", span["spanId"])
                assert re.fullmatch("[0-9a-f]{16}", span.get("parentSpanId", PARENT))
                assert span["kind"] in (1, 2)
                begin, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
                assert isinstance(span["startTimeUnixNano"], str) and begin <= end
                assert abs(end / 1e9 - time.time()) < 600
                yield {**span, "begin": begin, "end": end, "role": its["graft.role"],
                       "attributes": attributes_of(span["attributes"])}


class Collector(http.server.ThreadingHTTPServer):
    def __init__(self):
        self.spans, self.faults = [], []
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):  # the library's name for it
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                assert self.path == "/v1/traces" and self.headers["Content-Type"] == "application/json"
                self.server.spans += list(spans_of(json.loads(body)))
                self.send_response(200)
            except (AssertionError, KeyError, ValueError, json_format.ParseError) as fault:
                self.server.faults.append(repr(fault))
                self.send_response(400)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *unused):
            pass

    def wait_for(self, names, trace=TRACE, timeout_s=120):
        """The trace's spans by their names, once there are all of these."""
        deadline = time.monotonic() + timeout_s
        while True:
            found = {span["name"]: span for span in self.spans if span["traceId"] == trace}
            if set(names) <= set(found):
                assert not self.faults
                return found
            assert time.monotonic() < deadline, f"{set(found)}, not {names}; {self.faults}"
            time.sleep(0.05)


@pytest.fixture
def collector():
    running = Collector()
    yield running
    running.shutdown()


def complete(url, model, traceparent=TRACEPARENT, **more):
    body = {"model": model, "prompt": "It was", "max_tokens": 8, "temperature": 0, "ignore_eos": True, **more}
    headers = {"Content-Type": "application/json", **({"traceparent": traceparent} if traceparent else {})}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=120) as reply:
        reply.read()
        return reply.headers["X-Request-Id"]


def check_trace(spans, request_id, runner_role):
    server = spans["POST /v1/completions"]
    assert server["parentSpanId"] == PARENT and server["kind"] == 2
    assert server["attributes"]["graft.request_id"] == request_id
    assert server["attributes"]["http.response.status_code"] == 200
    assert server["attributes"]["gen_ai.request.model"] == "austen"
    assert server["attributes"]["gen_ai.usage.output_tokens"] == 8
    parts = [spans[name] for name in ("queue", "adapter load", "prefill", "decode")]
    for part in parts:
        assert part["parentSpanId"] == server["spanId"] and part["kind"] == 1
        assert part["role"] == runner_role
        assert part["attributes"]["graft.request_id"] == request_id
    queue, load, prefill, decode = parts
    assert queue["begin"] <= load["begin"] < load["end"] <= prefill["begin"]
    assert queue["end"] == prefill["begin"] and prefill["end"] == decode["begin"]
    assert decode["attributes"]["gen_ai.usage.output_tokens"] == 8
    assert decode["attributes"]["graft.finish_reason"] == "length"
    assert len({span["spanId"] for span in spans.values()}) == 5
    return server, queue, decode


COLD = ("--tune", "read-at-start-gib=0,cold-start=join-later")
NAMES = ("POST /v1/completions", "queue", "adapter load", "prefill", "decode")


def test_a_servers_traces(collector):
    with Server(*SMALL, *COLD, "--otlp-endpoint", collector.url) as server:
        request_id = complete(server.url, "austen")
        server_span, queue, decode = check_trace(collector.wait_for(NAMES), request_id, "server")
        # One process, one clock.
        assert server_span["begin"] <= queue["begin"] and decode["end"] <= server_span["end"]
        complete(server.url, "austen", traceparent="00-" + "1" * 32 + f"-{PARENT}-00")
        complete(server.url, "base", traceparent="00-" + "2" * 32 + f"-{PARENT}-01")
        spans = collector.wait_for(("POST /v1/completions", "decode"), trace="2" * 32)
        assert "adapter load" not in spans
        assert not any(span["traceId"] == "1" * 32 for span in collector.spans), "the client said not to sample it"
        complete(server.url, "base", traceparent=None)
        deadline = time.monotonic() + 120
        while not any("parentSpanId" not in span for span in collector.spans):
            assert time.monotonic() < deadline, "no trace begins at the server"
            time.sleep(0.05)
        assert server.metric("graft_otlp_spans_total", "dropped") == 0


@pytest.mark.skipif(not HAS_CLUSTER, reason="built without gRPC")
def test_a_trace_goes_through_frontend_and_runner(collector):
    runner = Runner(*COLD, "--otlp-endpoint", collector.url).start()
    runner.wait_for("runner of")
    frontend = Frontend([runner], "--otlp-endpoint", collector.url).start()
    try:
        frontend.wait_for("is up")
        frontend.wait_for("frontend of")
        request_id = complete(frontend.url, "austen", stream=True)
        spans = collector.wait_for(NAMES)
        server_span, _, _ = check_trace(spans, request_id, "runner")
        assert server_span["role"] == "frontend"
        assert server_span["spanId"] in runner.log(), "the runner's log has the span, too"
    finally:
        assert [process.stop() for process in (frontend, runner)] == [0, 0]


def test_a_collector_that_is_away_costs_no_answer():
    with Server(*SMALL, "--otlp-endpoint", f"http://127.0.0.1:{free_port()}") as server:
        for _ in range(3):
            complete(server.url, "base", traceparent=None)
        deadline = time.monotonic() + 120
        while server.metric("graft_otlp_spans_total", "dropped") == 0:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert server.says("spans are dropped")
        complete(server.url, "base", traceparent=None)


def test_an_endpoint_that_is_none_is_refused():
    server = Server(*SMALL, "--otlp-endpoint", "https://collector:4318")
    with pytest.raises(RuntimeError, match="http alone"):
        server.start()
