"""On what was measured: machine, load beside us, versions."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from pathlib import Path

from benchmarks.kafka import VERSION, java_for_kafka
from benchmarks.measure.os_usage import processors, total_bytes
from benchmarks.systems import SETTINGS
from harness.nodes.compiled import compiled_modules


def describe(source: Path) -> dict[str, object]:
    """For the head of the results."""
    return {
        "machine": f"{processors()} × {_processor()}, {total_bytes() / 2**30:.0f} GiB, Linux {platform.release()}",
        "highwater": f"commit {_commit(source)}",
        "highwater is": f"{_form(source)}, Python {platform.python_version()}",
        "broker sources": _digest(source / "broker"),
        "Kafka": f"{VERSION}, ZooKeeper mode, stock JVM options (G1, 1 GiB heap), Java {_java()}",
        "cluster": "3 brokers and 1 ZooKeeper a system on loopback, RF 3, min ISR 2; the systems are measured in turn",
        "load average at the start": load_average(),
        "settings": dict(SETTINGS),
    }


def load_average() -> str:
    """Over 1, 5 and 15 minutes; what runs beside a benchmark disturbs it."""
    return ", ".join(f"{value:.2f}" for value in os.getloadavg())


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _java() -> str:
    done = subprocess.run([java_for_kafka().executable, "-version"], capture_output=True, text=True, check=False)
    return done.stderr.splitlines()[0].split('"')[1] if '"' in done.stderr else "of unknown version"


def _digest(package: Path) -> str:
    """The same for the same sources, whatever the commit: documents change more often than the broker."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _form(source: Path) -> str:
    return "hot modules compiled by mypyc" if compiled_modules(source / "broker") else "sources as they are"


def _commit(source: Path) -> str:
    command = ["git", "-C", str(source), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
