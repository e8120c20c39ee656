"""On what was measured, and with what: machine, load beside us, versions, sources."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from pathlib import Path

from benchmarks.kafka import installed_version, java_for_kafka
from benchmarks.measure.os_usage import processors, total_bytes
from benchmarks.systems import NOT_DEFAULT, SETTINGS
from benchmarks.zookeeper import server_version, settings_text
from harness.nodes.compiled import compiled_modules

_HERE = Path(__file__).resolve().parent


def describe(source: Path, kafka_home: Path | None, measured_with: str) -> dict[str, object]:
    """For the head of the results. measured_with: options that change what is measured."""
    return {
        "machine": f"{processors()} × {_processor()}, {total_bytes() / 2**30:.0f} GiB, Linux {platform.release()}",
        "highwater": f"commit {_commit(source)}",
        "highwater is": f"{_form(source)}, Python {platform.python_version()}",
        "broker sources": digest(source / "broker", "*.py"),
        "benchmark sources": digest(_HERE, "*.py", "*.c", "*.h"),
        "Kafka": f"{installed_version(kafka_home)}, ZooKeeper mode, stock JVM options (G1, 1 GiB heap), Java {_java()}",
        "ZooKeeper": f"{server_version()}, {settings_text()}",
        "cluster": "3 brokers and 1 ZooKeeper a system on loopback, RF 3, min ISR 2; the systems are measured in turn",
        "settings that are not Kafka's defaults": ", ".join(f"{name}={SETTINGS[name]}" for name in NOT_DEFAULT),
        "measured with": measured_with,
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


def digest(folder: Path, *patterns: str) -> str:
    """The same for the same sources, whatever the commit: documents change more often than what is measured."""
    found = hashlib.sha256()
    for path in sorted({path for pattern in patterns for path in folder.rglob(pattern)}):
        found.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()[:12]


def _form(source: Path) -> str:
    return "hot modules compiled by mypyc" if compiled_modules(source / "broker") else "sources as they are"


def _commit(source: Path) -> str:
    command = ["git", "-C", str(source), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
