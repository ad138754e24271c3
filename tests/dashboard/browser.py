"""A page in headless Chromium, spoken to over two pipes by its DevTools protocol: messages of JSON, each ended by a zero
byte. Python alone."""

import base64
import itertools
import json
import os
import queue
import shutil
import signal
import subprocess
import threading
import time

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser")
ANSWER_S = 60


def program():
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page. `console` has what it complained of."""

    def __init__(self, folder):
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        # The browser reads its descriptor 3 and writes its descriptor 4.
        command = (f'exec {program()} --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="{folder}" '
                   f"--remote-debugging-pipe about:blank 3<&{to_browser} 4>&{from_browser}")
        self.process = subprocess.Popen(["bash", "-c", command], pass_fds=(to_browser, from_browser), stderr=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self.console = []
        self._ids = itertools.count(1)
        self._answers = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()
        self._session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        # What the page's thread computes, not what it waits for a core.
        self.call("Performance.enable", timeDomain="threadTicks")

    def _read(self):
        rest = b""
        while True:
            data = os.read(self._in, 1 << 16)
            if not data:
                return
            *messages, rest = (rest + data).split(b"\0")
            for message in map(json.loads, messages):
                self._take(message)

    def _take(self, message):
        if "id" in message:
            with self._lock:
                answer = self._answers.pop(message["id"])
            answer.put(message)
        elif message["method"] in ("Log.entryAdded", "Runtime.exceptionThrown"):
            self.console.append(json.dumps(message["params"]))

    def call(self, method, **params):
        answer = queue.Queue()
        number = next(self._ids)
        with self._lock:
            self._answers[number] = answer
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        got = answer.get(timeout=ANSWER_S)
        assert "error" not in got, f"{method}: {got['error']}"
        return got["result"]

    def open(self, url, width=1440, height=1000, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=url)
        self.wait_for(f"location.href.startsWith({json.dumps(url)}) && document.readyState === 'complete'")

    def run(self, script):
        """The value of a JavaScript expression."""
        got = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in got, got["exceptionDetails"]
        return got["result"].get("value")

    def wait_for(self, script, timeout_s=60):
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            value = self.run(script)
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f"never: {script}\n{self.console}\n{self.run('document.body.innerText')}")

    def cpu_seconds(self):
        """Of the page's main thread so far: scripts, layout and painting."""
        metrics = {one["name"]: one["value"] for one in self.call("Performance.getMetrics")["metrics"]}
        return metrics["TaskDuration"]

    def screenshot(self, path):
        """Of the whole page."""
        image = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(image))

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
