"""`python -m tools.dead_code`: names of the packages that neither the packages nor their tests mention, by vulture.

Decides what may stand unused, and why. Exit code 1 when something else does, or when an entry of the list is needed by
nothing any more.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from vulture import Vulture

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("broker", "harness", "nemesis", "checkers", "benchmarks", "tools")
USERS = ("tests", "setup.py")
"""What they mention is used; what they do not use themselves is theirs."""
_HERE = "tools/dead_code.py"


@dataclass(frozen=True, slots=True)
class Allowed:
    """path and name: patterns, as the shell has them. who: uses it where vulture does not look."""

    path: str
    name: str
    who: str


ALLOWED = (
    Allowed("broker/wire/errors.py", "*", "the protocol's list of errors is whole"),
    Allowed("broker/wire/api.py", "*", "the protocol's list of requests is whole"),
    Allowed("broker/wire/messages/*.py", "*", "a message has all fields of its definition"),
    Allowed("broker/wire/coordinator_records/*.py", "*", "a record has all fields of its definition"),
    Allowed("broker/server/log_lines.py", "formatException", "logging calls it"),
    Allowed("broker/config/settings.py", "*", "Settings has a field for each row of the table"),
    Allowed(
        "broker/log/config.py", "max_message_bytes", "checked with a topic's other settings; appending reads its text"
    ),
    Allowed("checkers/spark/gateway.py", "*convert", "py4j calls it"),
    Allowed("checkers/spark/workers.py", "pythonExec", "pyspark reads it"),
    Allowed("harness/nightly/history.py", "row_factory", "sqlite3 reads it"),
    Allowed("harness/nightly/jobs.py", "unavailable_ms", "trends.LABELS names it in a text"),
    Allowed("harness/nodes/ssh.py", "missing_host_key", "paramiko calls it"),
    Allowed("harness/nodes/transfer.py", "[gu]name", "tarfile writes them"),
    Allowed("harness/serve/server.py", "capture_signals", "uvicorn calls it"),
    Allowed("harness/serve/server.py", "should_exit", "uvicorn reads it"),
    Allowed("harness/systems/coordination.py", "propagate", "logging reads it"),
    Allowed("harness/workloads/append_poll/workload.py", "AppendPoll", "harness.plan.extensions names it in a text"),
    Allowed("harness/workloads/recreate/workload.py", "Recreate", "harness.plan.extensions names it in a text"),
    Allowed("harness/workloads/groups/workload.py", "Groups", "harness.plan.extensions names it in a text"),
    Allowed("harness/workloads/compaction/workload.py", "Compaction", "harness.plan.extensions names it in a text"),
    Allowed("harness/workloads/real_clients/workload.py", "RealClients", "harness.plan.extensions names it in a text"),
    Allowed("harness/workloads/wide/workload.py", "Wide", "harness.plan.extensions names it in a text"),
    Allowed("nemesis/faults/*.py", "FAMILY", "nemesis.catalogue names it in a text"),
    Allowed("tools/processes.py", "pytest_*", "pytest calls it"),
)


@dataclass(frozen=True, slots=True)
class Unused:
    """path: relative to the root."""

    path: str
    line: int
    kind: str
    name: str

    def is_allowed_by(self, allowed: Allowed) -> bool:
        return fnmatchcase(self.path, allowed.path) and fnmatchcase(self.name, allowed.name)


def unused(files: Sequence[tuple[str, str]]) -> list[Unused]:
    """files: (path, source) of packages and users. What users leave unused is left out."""
    found = Vulture()
    for path, source in files:
        found.scan(source, filename=Path(path))
    return [
        Unused(str(item.filename), item.first_lineno, item.typ, item.name)
        for item in found.get_unused_code(min_confidence=60)
        if item.filename.parts[0] in PACKAGES
    ]


def complaints(found: Sequence[Unused], allowed: Sequence[Allowed] = ALLOWED) -> list[str]:
    """A line for each that is not allowed, and for each entry of the list that allows nothing."""
    lines = [
        f"{one.path}:{one.line}: {one.kind} {one.name} is used by nothing: remove it, or say in {_HERE} who does"
        for one in found
        if not any(one.is_allowed_by(entry) for entry in allowed)
    ]
    return lines + [
        f"{_HERE}: {entry.path} {entry.name} is used, or gone: remove its entry"
        for entry in allowed
        if not any(one.is_allowed_by(entry) for one in found)
    ]


def main() -> int:
    """Look at everything; print what is wrong."""
    paths = [path for name in (*PACKAGES, *USERS) for path in sorted((ROOT / name).rglob("*.py")) or [ROOT / name]]
    lines = complaints(unused([(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")) for path in paths]))
    print("\n".join(lines) or f"{len(paths)} files: nothing is unused")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
