"""A real headless Chromium, driven over its debugging pipe: keys are pressed, the accessibility tree is read."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.wait import eventually

# Chromium reads commands from descriptor 3 and writes answers to 4; copies first, because these numbers may be taken.
_LAUNCH = """
import fcntl, os, sys
commands, answers = (fcntl.fcntl(int(number), fcntl.F_DUPFD_CLOEXEC, 100) for number in sys.argv[1:3])
os.dup2(commands, 3)
os.dup2(answers, 4)
for number in sys.argv[1:3]:
    if int(number) not in (3, 4):
        os.close(int(number))
os.execvp(sys.argv[3], sys.argv[3:])
"""
_KEYS = {"Tab": (9, ""), "Enter": (13, "\r")}


class CommandFailed(AssertionError):
    """Chromium did not carry a command out."""


class Browser:
    """One tab. Each call fails after `timeout_s` without an answer."""

    def __init__(self, to: int, back: int, timeout_s: float = 60.0) -> None:
        self._to, self._back, self._timeout_s = to, back, timeout_s
        self._number = 0
        self._rest = b""
        # Not select(): a test process may hold more than 1,024 descriptors.
        self._readable = select.poll()
        self._readable.register(back, select.POLLIN)
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Accessibility.enable")

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """One command of the debugging protocol; what it answers."""
        self._number += 1
        command: dict[str, object] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            command["sessionId"] = self._session
        os.write(self._to, json.dumps(command).encode() + b"\0")
        while True:
            message = self._message()
            if message.get("id") == self._number:
                if "error" in message:
                    raise CommandFailed(message)
                result: dict[str, Any] = message["result"]
                return result

    def _message(self) -> dict[str, Any]:
        deadline = time.monotonic() + self._timeout_s
        while b"\0" not in self._rest:
            left_s = deadline - time.monotonic()
            assert left_s > 0, "Chromium did not answer"
            assert self._readable.poll(left_s * 1000), "Chromium did not answer"
            piece = os.read(self._back, 1 << 16)
            assert piece, "Chromium is gone"
            self._rest += piece
        one, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(one)
        return message

    def show(self, address: str) -> None:
        """Go to a page and wait until it is there."""
        self.call("Page.navigate", url=address)
        self.until(f"location.href == {json.dumps(address)}")

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression in the page; what it throws fails the test."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until an expression is true of a page that is there whole: a page is parsed as it arrives, so what
        stands at its top may be there before the rest.
        """
        whole = f"document.readyState == 'complete' && ({script})"

        def is_true() -> bool:
            try:
                return self.evaluate(whole) is True
            except CommandFailed:
                # The page was replaced by the next one while it was asked.
                return False

        eventually(is_true, script, self._timeout_s)

    def press(self, key: str) -> None:
        """Tab or Enter, as from a keyboard."""
        code, text = _KEYS[key]
        of_key = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", **of_key, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **of_key)

    def type(self, text: str) -> None:
        """Into what has the focus."""
        self.call("Input.insertText", text=text)

    def spoken(self) -> list[tuple[str, str]]:
        """(role, name) of all that a screen reader meets, in its order."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            (node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node.get("ignored")
        ]


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser until the block ends. profile: a folder of its own."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert program, "no Chromium: apt-get install -y chromium (make test installs it as root)"
    theirs_in, to = os.pipe()
    back, theirs_out = os.pipe()
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            _LAUNCH,
            str(theirs_in),
            str(theirs_out),
            program,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--remote-debugging-pipe",
            "--window-size=1200,900",
            f"--user-data-dir={profile}",
        ],
        pass_fds=(theirs_in, theirs_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Browser(to, back)
    finally:
        # Chromium ends when its pipe does.
        os.close(to)
        os.close(back)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
