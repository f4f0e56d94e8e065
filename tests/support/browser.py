"""A headless Chromium for tests, driven over W3C WebDriver with the standard library alone.

    with Browser() as browser:
        browser.open(path)
        browser.click(*browser.centre_of("#help-open"))

Input goes through the browser's own event path (clicks, wheel, keys), so a page cannot tell it from a person.
`missing()` says what is not installed, for tests that skip.
"""

import base64
import json
import pathlib
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from tests.support.processes import start

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-prefers-reduced-motion",
]
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "ArrowDown": "\ue015", "ArrowUp": "\ue013", "Tab": "\ue004"}
START_SECONDS = 60


def missing():
    """What a browser test lacks here, as a sentence, or None."""
    absent = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]
    return f"not installed: {', '.join(absent)} (Debian: chromium, chromium-driver)" if absent else None


class Browser:
    def __init__(self, width=1440, height=900, flags=()):
        self.window = f"--window-size={width},{height}"
        self.flags = list(flags)
        self.profile = tempfile.TemporaryDirectory(prefix="weir-browser-", ignore_cleanup_errors=True)
        self.driver = start(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.base = f"http://127.0.0.1:{self._driver_port()}"
        self.http = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.session = None
        self.address = None

    def __enter__(self):
        options = {
            "binary": shutil.which("chromium"),
            "args": FLAGS + self.flags + [self.window, f"--user-data-dir={self.profile.name}"],
        }
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        try:
            made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        except BaseException:
            self._stop_driver()
            raise
        self.session = made["sessionId"]
        return self

    def __exit__(self, *_):
        try:
            self._call("DELETE", f"/session/{self.session}")
        finally:
            self._stop_driver()

    def _stop_driver(self):
        self.driver.terminate()
        self.driver.wait(timeout=20)
        self.driver.stdout.close()
        self.profile.cleanup()

    def _driver_port(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            line = self.driver.stdout.readline()
            if "successfully on port" in line:
                return int(line.rsplit("port", 1)[1].strip().rstrip("."))
            if not line:
                break
        raise RuntimeError("chromedriver did not start")

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.base + path, data=data, method=method, headers={"Content-Type": "application/json"}
        )
        try:
            with self.http.open(request, timeout=180) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as fault:
            raise RuntimeError(f"{method} {path}: {json.load(fault)['value']['message']}") from None

    def _post(self, path, body):
        return self._call("POST", f"/session/{self.session}{path}", body)

    # ---- Pages ------------------------------------------------------------------------------------------

    def open(self, path):
        """Opens a page; what was logged before it is forgotten."""
        self.logs("browser"), self.logs("performance")
        self.address = pathlib.Path(path).resolve().as_uri()
        self._post("/url", {"url": self.address})

    def run(self, script, *arguments):
        """The value that the body of a function returns in the page."""
        return self._post("/execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script, *arguments):
        """As run, for a body that hands its value to its last argument, a function."""
        return self._post("/execute/async", {"script": script, "args": list(arguments)})

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def is_shown(self, selector):
        return self.run("return document.querySelector(arguments[0]).checkVisibility()", selector)

    def wait_until(self, script, *arguments):
        """Waits for the body of a function to return something true, and returns that."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            value = self.run(script, *arguments)
            if value:
                return value
            time.sleep(0.02)
        raise AssertionError(f"never true in the page: {script}")

    def settle(self):
        """Waits until the page has drawn what was asked of it so far."""
        self.run_async("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done(1)))")

    def screenshot(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self._call("GET", f"/session/{self.session}/screenshot")))

    def logs(self, kind):
        """'browser': the console; 'performance': events of the DevTools protocol. Each entry is given once."""
        return self._post("/se/log", {"type": kind})

    def complaints(self):
        """What the console says of the opened page since the last call, without what the browser's own pages say."""
        return [entry["message"] for entry in self.logs("browser") if not entry["message"].startswith("chrome")]

    def foreign_requests(self):
        """The addresses other than its own that the opened page asked for since the last call. What the browser asks for on
        its own account (its start page does, and that differs between versions) belongs to another document."""
        events = (json.loads(entry["message"])["message"] for entry in self.logs("performance"))
        sent = (event["params"] for event in events if event["method"] == "Network.requestWillBeSent")
        asked = [one["request"]["url"] for one in sent if one["documentURL"].split("#")[0] == self.address]
        return [url for url in asked if url.split("#")[0] != self.address and not url.startswith("data:")]

    # ---- A person's hands -------------------------------------------------------------------------------

    def centre_of(self, selector):
        return self.run(
            "const b = document.querySelector(arguments[0]).getBoundingClientRect();"
            "return [b.left + b.width / 2, b.top + b.height / 2]",
            selector,
        )

    def _pointer(self, actions):
        self._post(
            "/actions",
            {
                "actions": [
                    {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions}
                ]
            },
        )
        self.settle()

    def move(self, x, y):
        self._pointer([{"type": "pointerMove", "x": round(x), "y": round(y), "duration": 0}])

    def click(self, x, y):
        self._pointer(
            [
                {"type": "pointerMove", "x": round(x), "y": round(y), "duration": 0},
                {"type": "pointerDown", "button": 0},
                {"type": "pointerUp", "button": 0},
            ]
        )

    def drag(self, x, y, to_x, to_y):
        self._pointer(
            [
                {"type": "pointerMove", "x": round(x), "y": round(y), "duration": 0},
                {"type": "pointerDown", "button": 0},
                {"type": "pointerMove", "x": round(to_x), "y": round(to_y), "duration": 60},
                {"type": "pointerUp", "button": 0},
            ]
        )

    def wheel(self, x, y, delta):
        self._post(
            "/actions",
            {
                "actions": [
                    {
                        "type": "wheel",
                        "id": "wheel",
                        "actions": [
                            {
                                "type": "scroll",
                                "x": round(x),
                                "y": round(y),
                                "deltaX": 0,
                                "deltaY": delta,
                                "duration": 0,
                            }
                        ],
                    }
                ]
            },
        )
        self.settle()

    def press(self, *keys):
        """Names of KEYS, or text that is typed."""
        strokes = [stroke for key in keys for stroke in (KEYS[key] if key in KEYS else key)]
        actions = [{"type": kind, "value": stroke} for stroke in strokes for kind in ("keyDown", "keyUp")]
        self._post("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})
        self.settle()
