"""A headless Chromium, controlled through two pipes (DevTools protocol), with its errors and requests."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync --hide-scrollbars --disable-dev-shm-usage --remote-debugging-pipe"
)


def find() -> str | None:
    """Return the path of a browser on this machine, if there is one."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One page. complaints: console errors, exceptions and violations; requests: every requested URL."""

    def __init__(self, width: int = 1400, height: int = 1000) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._profile = tempfile.mkdtemp(prefix="aftershock-browser-")
        self._output = Path(self._profile) / "stderr"
        self._read, self._write, self._process = self._start(width, height)
        self._buffer, self._number, self._loaded = b"", 0, False
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _start(self, width: int, height: int) -> tuple[int, int, subprocess.Popen[bytes]]:
        their_read, write = os.pipe()
        read, their_write = os.pipe()

        def set_pipes() -> None:
            # The browser reads commands from 3 and writes answers to 4. Either may be the number of a pipe above, so
            # both pipes first move to numbers that are free: a number chosen here may be one of them too.
            reads, writes = (fcntl.fcntl(pipe, fcntl.F_DUPFD, 5) for pipe in (their_read, their_write))
            os.dup2(reads, 3)
            os.dup2(writes, 4)

        with self._output.open("wb") as output:
            process = subprocess.Popen(
                [str(find()), *FLAGS.split(), f"--user-data-dir={self._profile}", f"--window-size={width},{height}"],
                preexec_fn=set_pipes,
                close_fds=False,
                start_new_session=True,
                stdout=subprocess.DEVNULL,
                stderr=output,
            )
        os.close(their_read)
        os.close(their_write)
        return read, write, process

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, at: TracebackType | None) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)  # the session that was started above, and nothing else
        self._process.wait()
        os.close(self._read)
        os.close(self._write)
        shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, path: Path | str) -> None:
        """Load a file or a URL and wait until it has loaded."""
        self._loaded = False
        self.call("Page.navigate", {"url": path.as_uri() if isinstance(path, Path) else path})
        deadline = time.monotonic() + 60
        while not self._loaded:
            assert time.monotonic() < deadline, f"{path} did not load"
            self._handle(self._message())
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def call(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a command to the page and return its result."""
        return self._call(method, params or {}, self._session)

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        answer = self.call("Runtime.evaluate", {"expression": script, "returnByValue": True, "awaitPromise": True})
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """Send a mouse event: mousePressed, mouseMoved or mouseReleased."""
        self.call("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1, **more})

    def key(self, name: str) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", {"type": kind, "key": name})

    def look(self, scheme: str, media: str = "") -> None:
        """Set the preferred colour scheme, on screen or in print."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", {"media": media, "features": features})

    def picture(self, path: Path, whole: bool = False) -> None:
        """Write a screenshot."""
        data = self.call("Page.captureScreenshot", {"captureBeyondViewport": whole})["data"]
        path.write_bytes(base64.b64decode(data))

    def _call(self, method: str, params: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                found: dict[str, Any] = answer["result"]
                return found
            self._handle(answer)

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            data = os.read(self._read, 1 << 20)
            assert data, f"the browser went away: {self._output.read_text(errors='replace')[-2000:]}"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _handle(self, event: dict[str, Any]) -> None:
        method, params = event.get("method"), event.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])


def assert_opens_and_fits(browser: Browser, path: Path) -> None:
    """Assert that a page opens in dark and light mode, and fits the width of a screen, a tablet and a phone."""
    for scheme in ("dark", "light"):
        browser.look(scheme)
        browser.open(path)
    for width in (1400, 800, 420):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.call("Emulation.setDeviceMetricsOverride", size)
        assert browser.run("document.documentElement.scrollWidth") <= width
