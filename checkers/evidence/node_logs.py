"""What a broker's own log says of an error that nobody expected: a traceback, a line of level CRITICAL.

Text in, sentences out. A traceback under a line of level WARNING or below is one that the broker expected and went on
from; any other one (under ERROR or CRITICAL, or of a thread that just ended) is a fault of the broker's that no rule
might show. Logs are copied with the evidence, and once more after the rotation. Source:
broker/server/log_lines.py (`16:35:01.355 INFO broker: …`), threading.excepthook.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from checkers.history.run_info import RunInfo

_RECORD = re.compile(r"^[\d:.,\- ]*\b(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b")
_EXPECTED = frozenset({"DEBUG", "INFO", "WARNING"})
_TRACEBACK = "Traceback (most recent call last)"
_SHOWN = 200
_COPIES = ("logs", "logs-after")


def failures(lines: Iterable[str]) -> list[str]:
    """One text per unexpected traceback or CRITICAL line: the line that reports it, and the exception."""
    found: list[str] = []
    before, level, inside = "", None, False
    for raw in lines:
        line = raw.rstrip()
        record = _RECORD.match(line)
        if inside and line and not line[0].isspace():
            # The first line of a traceback that is not indented names the exception.
            found[-1] = f"{found[-1]}: {line}" if found[-1] != line else line
            inside = False
            if record is None:
                before, level = "", None
                continue
        if record is not None:
            level = record[1]
            before = line
            if level == "CRITICAL":
                found.append(line)
        elif _TRACEBACK in line:
            if level is None or level not in _EXPECTED:
                if level != "CRITICAL":
                    found.append(before or line)
                inside = True
            before, level = "", None
        elif line:
            # Neither a record nor part of a known one: the output that follows did not go through logging.
            before, level = line, None
    return [text[:_SHOWN] for text in found]


def log_failures(run_dir: Path, info: RunInfo) -> list[str]:
    """Per broker log that has any: how many, and the first. Only for the system whose logs are known."""
    if info.system_kind != "highwater":
        return []
    reports: list[str] = []
    for node in info.brokers:
        for name, texts in sorted(_texts(run_dir / "evidence" / node.name).items()):
            found = [one for text in texts for one in failures(text.splitlines())]
            if found:
                more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
                reports.append(f"{name} of {node.name}: {found[0]}{more}")
    return reports


def _texts(evidence: Path) -> dict[str, list[str]]:
    """Log → what its copies hold; a copy that goes on from where the one before it ends stands for both."""
    found: dict[str, list[bytes]] = {}
    for folder in _COPIES:
        for path in (evidence / folder).glob("*"):
            if path.is_file():
                held = path.read_bytes()
                before = [one for one in found.get(path.name, ()) if not held.startswith(one)]
                found[path.name] = [*before, held]
    return {name: [one.decode(errors="replace") for one in copies] for name, copies in found.items()}
