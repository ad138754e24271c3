#!/usr/bin/env python3
"""Runners of Graft on a Ray cluster: actors in a placement group, each of which keeps one `graft runner` alive.

  python deploy/ray/runners.py up --etcd etcd-1:2379 --runners 4 --gpus-per-runner 1 -- --model DIR --adapters DIR
  python deploy/ray/runners.py status
  python deploy/ray/runners.py down

What follows -- are options of `graft runner`. Frontends find the runners by etcd. This runs on a node of the cluster,
whose nodes have Graft and the model; it needs ray alone. README.md beside it says what happens when.
"""

import argparse
import collections
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback

import ray
from ray.exceptions import RayError
from ray.util.placement_group import placement_group_table
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

NAMESPACE = "graft"
# Said by this program, not by whoever calls it.
OURS = ("--etcd", "--advertise", "--rpc-host", "--rpc-port")
PAUSE_MIN_S, PAUSE_MAX_S = 1, 30
# A runner that was there as long as this begins anew with the shortest pause.
PAUSE_RESET_S = 60
# `up` gives up when a runner has ended as often as this before it served.
ENDS_MAX = 3
CALL_S = 5
CONNECT_S = 60
# Asked to stop, a runner ends with 0; before it serves, by the signal.
ASKED_CODES = (None, 0, -signal.SIGTERM, 128 + signal.SIGTERM)

# Becomes the runner, after the kernel was told to kill it when the thread that started it ends. It is a program because
# no Python may run between fork and exec in a process with threads. Where that thread has ended already, so does this.
# Ray's processes are nice to others, as a server is not; only root may change that here.
LAUNCHER = """
import ctypes, os, sys
if ctypes.CDLL(None).prctl(1, 9, 0, 0, 0) != 0: sys.exit("prctl(PR_SET_PDEATHSIG) failed")
try: os.setpriority(os.PRIO_PROCESS, 0, 0)
except OSError: pass
if os.getppid() == int(sys.argv[1]): os.execv(sys.argv[2], sys.argv[2:])
"""


class Refused(Exception):
    """A sentence for whoever called; the exit code is 1."""


class Runner:
    """The actor. A thread of its own starts the process, reads its log and starts it again; the process lives no longer
    than this thread, nor than the actor's process. Ray's threads call status and stop."""

    def __init__(self, graft, options, has_gpu, by_name, ports):
        self.graft, self.options, self.ports = graft, options, ports
        self.env = dict(os.environ)
        if not has_gpu:
            self.env["CUDA_VISIBLE_DEVICES"] = ""  # none was reserved for it
        self.host = ray.util.get_node_ip_address()
        self.name = socket.gethostname() if by_name else self.host
        self.lock = threading.Lock()  # over process and its start
        self.stopping = threading.Event()
        self.process, self.port = None, None
        self.ends = 0  # unasked
        self.lines = collections.deque(maxlen=20)
        self.thread = threading.Thread(target=self._keep_alive, daemon=True)
        self.thread.start()

    def _keep_alive(self):
        try:
            pause_s = PAUSE_MIN_S
            while not self.stopping.is_set():
                begun = time.monotonic()
                self._run()
                if self.stopping.is_set():
                    return
                self.ends += 1
                if time.monotonic() - begun > PAUSE_RESET_S:
                    pause_s = PAUSE_MIN_S
                self.stopping.wait(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)
        except BaseException:  # Ray starts the actor again
            traceback.print_exc()
            os._exit(1)

    def _say(self, line):
        self.lines.append(line)
        print(line, file=sys.stderr, flush=True)  # into Ray's log of the actor

    def _run(self):
        """From a start of the process to its end."""
        program = shutil.which(self.graft)
        if program is None:
            return self._say(f"there is no program {self.graft} on {socket.gethostname()}: install Graft there, or say "
                             "where it is: --graft PATH")
        port = self._free_port()
        if port is None:
            return self._say(f"no port from {self.ports[0]} to {self.ports[-1]} is free at {self.host}: --ports")
        command = [sys.executable, "-I", "-S", "-c", LAUNCHER, str(os.getpid()), program, "runner", "--rpc-host",
                   self.host, "--rpc-port", str(port), "--advertise", f"{self.name}:{port}", *self.options]
        with self.lock:
            if self.stopping.is_set():
                return None
            self.process = subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                            stderr=subprocess.PIPE, text=True, errors="replace")
            self.port = port
        for line in self.process.stderr:
            self._say(line.rstrip("\n"))
        code = self.process.wait()
        return self._say(f"the runner ended with {code}") if code not in ASKED_CODES else None

    def _free_port(self):
        """Somebody may take it before the runner does; then that ends, and the next has another."""
        for port in self.ports or [0]:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((self.host, port))
                    return probe.getsockname()[1]
                except OSError:
                    continue
        return None

    def _listens(self):
        try:
            socket.create_connection((self.host, self.port), 1).close()
            return True
        except OSError:
            return False

    def status(self):
        with self.lock:
            process, port = self.process, self.port
        lives = process is not None and process.poll() is None
        if self.stopping.is_set():
            state = "drains" if lives else "stopped"
        else:
            state = ("serves" if self._listens() else "starts") if lives else "waits to start again"
        return {"state": state, "node": socket.gethostname(), "address": f"{self.name}:{port}" if lives else None,
                "pid": process.pid if lives else None, "ends": self.ends, "lines": list(self.lines)}

    def stop(self, wait_s):
        """The process's exit code, None without a process. It drains; what is still there after wait_s is killed."""
        self.stopping.set()
        with self.lock:
            process = self.process
        if process is not None and process.poll() is None:
            process.terminate()
            self.thread.join(wait_s)
            process.kill()
        self.thread.join()
        return process.returncode if process else None


def connect(address):
    if address and "://" not in address and address != "auto":
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), CALL_S).close()
        except (OSError, ValueError) as error:
            raise Refused(f"no Ray cluster answers at {address} ({error}): --address HOST:PORT of its head, or "
                          "`ray start`") from error
    late = threading.Timer(CONNECT_S, give_up, [address])
    late.daemon = True
    late.start()
    try:
        ray.init(address=address or "auto", namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise Refused(f"Ray takes no program from this machine: {error}\nThis runs on a node of the cluster: `ray "
                      "start` makes one") from error
    late.cancel()


def give_up(address):
    """Ray itself tries for minutes."""
    print(f"runners.py: what listens at {address} does not answer as a Ray cluster does, for {CONNECT_S} s",
          file=sys.stderr, flush=True)
    os._exit(1)


def find(name):
    """The placement group and its actors, of which those that are gone are None; or (None, [])."""
    try:
        group = ray.util.get_placement_group(name)
    except ValueError:
        return None, []
    table = placement_group_table(group)
    if table["state"] == "REMOVED":
        return None, []
    actors = []
    for i in range(len(table["bundles"])):
        try:
            actors.append(ray.get_actor(f"{name}-{i}"))
        except ValueError:
            actors.append(None)
    return group, actors


def ask(calls, timeout_s):
    """What each call of an actor gave, or a sentence why it gave nothing."""
    waiting = [call for call in calls if call is not None]
    done = set(ray.wait(waiting, num_returns=len(waiting), timeout=timeout_s)[0]) if waiting else set()
    answers = []
    for call in calls:
        try:
            answers.append(ray.get(call) if call in done else "it is gone" if call is None else
                           "Ray is placing it: its node is gone, or no node has what it needs")
        except RayError as error:
            answers.append(f"its actor failed: {error}")
    return answers


def statuses(actors):
    return ask([actor and actor.status.remote() for actor in actors], CALL_S)


def told(status):
    """A status in words."""
    if isinstance(status, str):
        return status
    text = f"{status['state']} on {status['node']}" + (f" at {status['address']}" if status["address"] else "")
    if status["pid"]:
        text += f", process {status['pid']}"
    if status["ends"]:
        text += f", ended {status['ends']} times"
    if status["state"] == "waits to start again" and status["lines"]:
        text += f"; it said: {status['lines'][-1]}"
    return text


def serves(status):
    return not isinstance(status, str) and status["state"] == "serves"


def amounts(resources):
    """Of what runners ask for."""
    return " and ".join(f"{resources.get(kind, 0):g} {kind}s" for kind in ("CPU", "GPU"))


def place(args):
    bundle = {"CPU": args.cpus_per_runner} | ({"GPU": args.gpus_per_runner} if args.gpus_per_runner else {})
    group = ray.util.placement_group([bundle] * args.runners, strategy=args.strategy, name=args.name,
                                     lifetime="detached")
    if group.wait(args.place_seconds):
        return group
    ray.util.remove_placement_group(group)
    needed = {kind: amount * args.runners for kind, amount in bundle.items()}
    alive = sum(node["Alive"] for node in ray.nodes())
    spread = f", each on a node of its own ({args.strategy})" if args.strategy == "STRICT_SPREAD" else ""
    raise Refused(f"the cluster has no room: {args.runners} runners need {amounts(needed)}{spread}. {alive} nodes have "
                  f"{amounts(ray.cluster_resources())}, of which {amounts(ray.available_resources())} are free. Nodes "
                  "that are started on demand may need longer: --place-seconds")


def remove(name, group, actors):
    for actor in actors:
        if actor is not None:
            ray.kill(actor, no_restart=True)
    ray.util.remove_placement_group(group)
    deadline = time.monotonic() + CALL_S
    while (find(name)[0] is not None or any(find_actor(f"{name}-{i}") for i in range(len(actors)))) and \
            time.monotonic() < deadline:
        time.sleep(0.05)


def find_actor(name):
    try:
        return ray.get_actor(name)
    except ValueError:
        return None


def wait_until_all_serve(args, actors):
    deadline = time.monotonic() + args.start_seconds
    while True:
        now = statuses(actors)
        for i, status in enumerate(now):
            if not serves(status) and not isinstance(status, str) and status["ends"] >= ENDS_MAX:
                said = "\n  ".join(status["lines"])
                raise Refused(f"runner {i} on {status['node']} ended {status['ends']} times before it served. "
                              f"It said:\n  {said}")
        if all(map(serves, now)):
            return now
        if time.monotonic() > deadline:
            missing = "".join(f"\n  runner {i}: {told(status)}" for i, status in enumerate(now) if not serves(status))
            raise Refused(f"not all serve after {args.start_seconds} s (--start-seconds):{missing}")
        time.sleep(0.2)


def up(args):
    if find(args.name)[0] is not None:
        raise Refused(f"runners named {args.name} are there already: runners.py down, or another --name")
    ports = list(range(args.ports[0], args.ports[1] + 1)) if args.ports else None
    group = place(args)
    actors = []
    try:
        for i in range(args.runners):
            actors.append(ray.remote(Runner).options(
                name=f"{args.name}-{i}", lifetime="detached", num_cpus=args.cpus_per_runner,
                num_gpus=args.gpus_per_runner, max_restarts=-1, max_task_retries=-1, max_concurrency=8,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=i),
            ).remote(args.graft, ["--etcd", args.etcd, *args.options], args.gpus_per_runner > 0, args.by_name, ports))
        now = wait_until_all_serve(args, actors)
    except BaseException:
        remove(args.name, group, actors)
        raise
    for i, status in enumerate(now):
        print(f"runner {i}: {told(status)}")
    return 0


def status_of(args):
    group, actors = find(args.name)
    if group is None:
        raise Refused(f"there are no runners named {args.name}")
    now = statuses(actors)
    for i, status in enumerate(now):
        print(f"runner {i}: {told(status)}")
    return 0 if all(map(serves, now)) else 1


def down(args):
    group, actors = find(args.name)
    if group is None:
        print(f"there are no runners named {args.name}")
        return 0
    codes = ask([actor and actor.stop.remote(args.wait_seconds) for actor in actors], args.wait_seconds + CALL_S)
    remove(args.name, group, actors)
    for i, code in enumerate(codes):
        print(f"runner {i}: " + (code if isinstance(code, str) else "had no process" if code is None else
                                 f"ended with {code}" + (", killed" if code == -signal.SIGKILL else "")))
    return 0 if all(isinstance(code, str) or code in ASKED_CODES for code in codes) else 1


def port_range(text):
    first, _, last = text.partition("-")
    low, high = int(first), int(last or first)
    if not 0 < low <= high < 65536:
        raise ValueError(text)
    return low, high


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    each = argparse.ArgumentParser(add_help=False)
    each.add_argument("--address", help="HOST:PORT of the cluster's head [$RAY_ADDRESS, or this node's cluster]",
                      default=os.environ.get("RAY_ADDRESS"))
    each.add_argument("--name", help="of these runners; several may be up under different names [%(default)s]",
                      default="graft")
    one = commands.add_parser("up", parents=[each], help="start runners, and wait until all serve")
    one.add_argument("--etcd", required=True, help="HOST:PORT,... of the cluster's etcd")
    one.add_argument("--runners", type=int, required=True, help="how many")
    one.add_argument("--gpus-per-runner", type=float, default=0, help="1, or a part of one; 0: CPU alone [0]")
    one.add_argument("--cpus-per-runner", type=float, default=1, help="that Ray reserves [1]")
    one.add_argument("--strategy", choices=("SPREAD", "STRICT_SPREAD", "PACK"), default="SPREAD",
                     help="Ray's, of the placement group [%(default)s]")
    one.add_argument("--graft", default="graft", help="the program, on each node [found by $PATH]")
    one.add_argument("--by-name", action="store_true", help="runners are called by their nodes' names, not addresses")
    one.add_argument("--ports", type=port_range, help="FIRST-LAST that runners may listen on [any]")
    one.add_argument("--place-seconds", type=float, default=10, help="for room on the cluster [%(default)s]")
    one.add_argument("--start-seconds", type=float, default=600, help="until all serve [%(default)s]")
    one.add_argument("options", nargs="*", metavar="-- OPTIONS", help="of graft runner")
    commands.add_parser("status", parents=[each], help="where each runner is; exit code 1 unless all serve")
    end = commands.add_parser("down", parents=[each], help="drain the runners and end them")
    end.add_argument("--wait-seconds", type=float, default=60, help="before one that drains is killed [%(default)s]")
    args = parser.parse_args(words)
    if args.command != "up":
        return args
    if args.runners < 1 or args.cpus_per_runner <= 0:
        parser.error("--runners and --cpus-per-runner are above 0")
    if not 0 <= args.gpus_per_runner <= 1:
        parser.error("--gpus-per-runner is from 0 to 1: a runner uses one GPU")
    for word in args.options:
        if word.split("=")[0] in OURS:
            parser.error(f"{word} stands before --, or is this program's to say: see up --help")
    return args


def main():
    args = parse(sys.argv[1:])
    try:
        connect(args.address)
        return {"up": up, "status": status_of, "down": down}[args.command](args)
    except Refused as error:
        print(f"runners.py: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
