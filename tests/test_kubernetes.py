"""deploy/kubernetes: every object is one that Kubernetes takes, and what the pods run serves, with processes in the place
of pods."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request

import kubernetes_validate
import openai
import pytest
import yaml

from conftest import DEMO, ROOT, binary, free_port, running_etcd
from test_cluster import Process

KUBERNETES = ROOT / "deploy" / "kubernetes"
COMPONENTS = KUBERNETES / "components"
DEMO_OVERLAY = KUBERNETES / "overlays" / "demo"
PATIENCE_S = 120
# Of the API server: the oldest that deploy/kubernetes/README.md names, and the newest that the schemas know.
VERSIONS = ("1.27", "1.37")


def objects_of(text):
    return [one for one in yaml.safe_load_all(text) if one]


def base_objects():
    listed = yaml.safe_load((KUBERNETES / "base" / "kustomization.yaml").read_text())["resources"]
    return [one for name in listed for one in objects_of((KUBERNETES / "base" / name).read_text())]


def check(objects):
    for one in objects:
        for version in VERSIONS:
            kubernetes_validate.validate(one, version, strict=True)


def pods_of(objects):
    return {one["metadata"]["name"]: one["spec"]["template"] for one in objects if "template" in one.get("spec", {})}


def make_certificates(folder):
    subprocess.run([KUBERNETES / "make_certificates.sh", "default", folder], check=True, capture_output=True)
    return folder


def test_the_base_is_what_kubernetes_takes():
    objects = base_objects()
    check(objects)
    pods = pods_of(objects)
    assert sorted(pods) == ["graft-cluster-init", "graft-frontend", "graft-runner"]
    for name, pod in pods.items():
        assert pod["spec"]["enableServiceLinks"] is False, f"{name}: a Service named graft sets GRAFT_PORT"
    # Services, budgets and network policies must find the pods.
    for one in objects:
        spec = one["spec"]
        chosen = {"Service": lambda: spec["selector"], "PodDisruptionBudget": lambda: spec["selector"]["matchLabels"],
                  "NetworkPolicy": lambda: spec["podSelector"]["matchLabels"]}.get(one["kind"])
        if chosen:
            assert any(chosen().items() <= pod["metadata"]["labels"].items() for pod in pods.values()), one["metadata"]


def test_who_asks_etcd_may_show_it_certificates():
    """Each pod that has etcd's address mounts the Secret that the page names, where there is one."""
    for name, pod in pods_of(base_objects()).items():
        [container] = pod["spec"]["containers"]
        assert {"configMapRef": {"name": "graft-etcd"}} in container["envFrom"]
        [mount] = [one for one in container["volumeMounts"] if one["mountPath"] == "/etc/graft/etcd-tls"]
        [volume] = [one for one in pod["spec"]["volumes"] if one["name"] == mount["name"]]
        assert volume["secret"]["secretName"] == "graft-etcd-tls" and volume["secret"]["optional"], name
        assert pod["spec"]["securityContext"]["fsGroup"] == pod["spec"]["securityContext"]["runAsGroup"]


def test_etcd_of_the_demo_forgets_and_keeps_to_its_volume():
    [etcd] = [one for one in objects_of((DEMO_OVERLAY / "etcd.yaml").read_text()) if one["kind"] == "StatefulSet"]
    flags = dict(arg.lstrip("-").split("=", 1) for arg in etcd["spec"]["template"]["spec"]["containers"][0]["args"])
    assert flags["auto-compaction-mode"] == "periodic" and flags["auto-compaction-retention"] == "10m"
    [claim] = etcd["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "1Gi"
    assert int(flags["quota-backend-bytes"]) <= 0.8 * 2 ** 30


def test_a_new_certificate_is_taken_by_pods_that_have_the_former(tmp_path):
    def verifies(certificate, authority):
        return subprocess.run(["openssl", "verify", "-CAfile", authority, certificate], capture_output=True).returncode == 0
    now = make_certificates(tmp_path / "tls")
    former = shutil.copytree(now, tmp_path / "former")
    make_certificates(now)
    assert (now / "tls.crt").read_bytes() != (former / "tls.crt").read_bytes()
    for ours, theirs in ((now, former), (former, now)):
        assert verifies(ours / "tls.crt", theirs / "ca.crt")
    # The authority's key is lost. First all come to know the new one.
    (now / "ca.key").unlink()
    former = shutil.copytree(now, tmp_path / "without_key")
    make_certificates(now)
    for ours, theirs in ((now, former), (former, now)):
        assert verifies(ours / "tls.crt", theirs / "ca.crt")
    first = shutil.copytree(now, tmp_path / "first_rollout")
    make_certificates(now)
    assert not verifies(now / "tls.crt", former / "ca.crt")
    for ours, theirs in ((now, first), (first, now)):
        assert verifies(ours / "tls.crt", theirs / "ca.crt")


def test_a_wrong_object_is_found():
    [runner] = [one for one in base_objects() if one["kind"] == "StatefulSet"]
    runner["spec"]["template"]["spec"]["containers"][0]["livenes"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        check([runner])


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="without kubectl, which renders overlays")
@pytest.mark.parametrize("overlay", sorted(path.name for path in (KUBERNETES / "overlays").iterdir()))
def test_an_overlay_is_what_kubernetes_takes(overlay, tmp_path):
    shutil.copytree(KUBERNETES, tmp_path / "kubernetes")
    folder = tmp_path / "kubernetes" / "overlays" / overlay
    make_certificates(folder / "tls")
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    objects = objects_of(done.stdout)
    check(objects)
    # What pods refer to is there, or the page says that the operator brings it.
    brought = {"graft-model", "graft-tls", "graft-admin", "graft-etcd-tls"}
    brought -= {"graft-model"} if overlay == "demo" else set()
    named = {one["metadata"]["name"] for one in objects} | brought
    for name, pod in pods_of(objects).items():
        for volume in pod["spec"].get("volumes", []):
            for kind, key in (("configMap", "name"), ("secret", "secretName"), ("persistentVolumeClaim", "claimName")):
                assert kind not in volume or volume[kind][key] in named, (name, volume)
        for container in pod["spec"]["containers"]:
            for source in container.get("envFrom", []):
                assert source["configMapRef"]["name"] in named, (name, source)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="without kubectl, which renders overlays")
@pytest.mark.parametrize("component", sorted(path.name for path in COMPONENTS.iterdir()))
def test_a_component_scales_the_runners(component, tmp_path):
    shutil.copytree(KUBERNETES, tmp_path / "kubernetes")
    folder = tmp_path / "kubernetes" / "overlays" / "scaled"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
                                               f"resources: [../gpu]\ncomponents: [../../components/{component}]\n")
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    objects = objects_of(done.stdout)
    check([one for one in objects if not one["apiVersion"].startswith("keda.sh/")])
    by_kind = {one["kind"]: one for one in objects}
    runners = by_kind["StatefulSet"]
    assert "replicas" not in runners["spec"], "every apply would set back what the autoscaler has set"
    [scaler] = [one for one in objects if one["kind"] in ("HorizontalPodAutoscaler", "ScaledObject")]
    assert scaler["spec"]["scaleTargetRef"] == {"apiVersion": runners["apiVersion"], "kind": "StatefulSet",
                                                "name": runners["metadata"]["name"]}
    [frontend] = by_kind["Deployment"]["spec"]["template"]["spec"]["containers"]
    env = {one["name"]: one.get("value") for one in frontend["env"]}
    assert env["GRAFT_CONSOLIDATE"] == "true" and float(env["GRAFT_RUNNER_STARTUP_SECONDS"]) > 0


def wanted_as_autoscalers_read_it(frontend):
    """By KEDA's trigger, and by the metric that the HorizontalPodAutoscaler asks Prometheus' adapter for."""
    [scaled] = objects_of((COMPONENTS / "keda" / "scaled_object.yaml").read_text())
    [trigger] = [one["metadata"] for one in scaled["spec"]["triggers"]]
    [service] = [one for one in base_objects() if one["kind"] == "Service" and one["metadata"]["name"] == "graft"]
    url = urllib.parse.urlsplit(trigger["url"])
    assert url.hostname.split(".")[0] == service["metadata"]["name"]
    assert (url.port or 80) == service["spec"]["ports"][0]["port"]
    with urllib.request.urlopen(f"http://127.0.0.1:{frontend.port}{url.path}", timeout=60) as reply:
        by_keda = json.load(reply)[trigger["valueLocation"]]
    [scaler] = objects_of((COMPONENTS / "hpa" / "autoscaler.yaml").read_text())
    [name] = [one["external"]["metric"]["name"] for one in scaler["spec"]["metrics"]]
    [rule] = yaml.safe_load((COMPONENTS / "hpa" / "adapter_rule.yaml").read_text())["rules"]["external"]
    assert rule["name"]["as"] == name and rule["metricsQuery"].startswith(f"max({name}{{")
    with urllib.request.urlopen(f"http://127.0.0.1:{frontend.port}/metrics", timeout=60) as reply:
        [line] = [line for line in reply.read().decode().splitlines() if line.startswith(f"{name} ")]
    return by_keda, float(line.split()[1])


class Pod:
    """The process of a pod's one container, with paths, ports and names of this machine."""

    def __init__(self, pod, folder, certificates, etcd_port, options=None):
        [self.container] = pod["spec"]["containers"]
        [port] = self.container.get("ports", [{"containerPort": 0}])
        self.port = free_port()
        folder.mkdir()
        places = {"/etc/graft/options/": f"{folder}/", "/etc/graft/tls": str(certificates), "/var/lib/graft": str(folder),
                  "/opt/graft/demo": str(DEMO), str(port["containerPort"]): str(self.port), "$(POD_IP)": "127.0.0.1",
                  "$(POD_NAME).graft-runners.$(POD_NAMESPACE).svc": "localhost"}

        def here(text):
            for there, place in places.items():
                text = text.replace(there, place)
            return text
        if options:
            (folder / options.name).write_text(here(options.read_text()))
        self.process = Process(*map(here, self.container["args"]), env={
            "GRAFT_ETCD": f"127.0.0.1:{etcd_port}", "GRAFT_ADMIN_KEY": "of-the-secret", "GRAFT_THREADS": "1",
            "GRAFT_POOL_GIB": "0.1", "GRAFT_HOST_GIB": "0.1",
            # As if service links were on.
            "GRAFT_PORT": "tcp://10.0.0.1:80", "GRAFT_SERVICE_HOST": "10.0.0.1"}).start()

    def is_ready(self):
        probe = self.container["readinessProbe"]
        try:
            if "tcpSocket" in probe:
                socket.create_connection(("127.0.0.1", self.port), 5).close()
            else:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}{probe['httpGet']['path']}", timeout=5).close()
            return True
        except OSError:
            assert self.process.process.poll() is None, self.process.log()
            return False

    def wait_ready(self):
        deadline = time.monotonic() + PATIENCE_S
        while not self.is_ready():
            assert time.monotonic() < deadline, self.process.log()
            time.sleep(0.05)


@pytest.fixture
def etcd_port(tmp_path):
    with running_etcd(tmp_path / "etcd") as port:
        yield port


@pytest.mark.skipif(
    shutil.which("etcd") is None or
    not os.path.exists(os.path.join(os.path.dirname(binary()), "libgraft_cluster.so")),
    reason="without etcd, or built without gRPC")
def test_what_the_pods_run_serves(tmp_path, etcd_port):
    pods = pods_of(base_objects())
    certificates = make_certificates(tmp_path / "tls")
    for attempt in ("init", "again"):
        job = Pod(pods["graft-cluster-init"], tmp_path / attempt, certificates, etcd_port)
        assert job.process.process.wait(PATIENCE_S) == 0, job.process.log()
    runner = Pod(pods["graft-runner"], tmp_path / "runner", certificates, etcd_port, DEMO_OVERLAY / "runner.yaml")
    frontend = Pod(pods["graft-frontend"], tmp_path / "frontend", certificates, etcd_port,
                   DEMO_OVERLAY / "frontend.yaml")
    runner.wait_ready()
    frontend.wait_ready()
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{frontend.port}/v1", api_key="none", timeout=PATIENCE_S)
    assert client.completions.create(model="austen", prompt="It was", max_tokens=8).usage.completion_tokens > 0
    assert "as Kubernetes sets it" in frontend.process.log()
    assert wanted_as_autoscalers_read_it(frontend) == (1, 1.0)
    assert [pod.process.stop(signal.SIGTERM) for pod in (frontend, runner)] == [0, 0], frontend.process.log()
