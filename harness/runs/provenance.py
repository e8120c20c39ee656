"""What code and which tools a run was made with: two runs of different code must not look the same.

Decides what is part of the code of a run. Must not know plans or stores.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import importlib.metadata
import platform
import re
from collections.abc import Iterable
from pathlib import Path

from harness.tools.java import JavaMissing, find_java_for_spark, zookeeper_jars

LAB = ("harness", "nemesis", "checkers")


def code_digest(broker_source: Path, others: Iterable[Path] = ()) -> str:
    """Digest of every importable file of the broker under test, of the lab and of other packages, compiled ones too, 12
    hex digits.

    broker_source: the folder that holds the `broker` package. others: folders of packages, or files of modules.
    """
    lab = Path(__file__).resolve().parents[2]
    return digest_of([broker_source / "broker", *(lab / name for name in LAB), *others])


def digest_of(packages: Iterable[Path]) -> str:
    """Digest of every file of code of these packages, 12 hex digits; a package may be one file."""
    found = hashlib.sha256()
    for package in packages:
        for file in [package] if package.is_file() else sorted(package.rglob("*")):
            if _code(file.relative_to(package.parent)) and file.is_file():
                found.update(f"{file.relative_to(package.parent)}\0".encode())
                found.update(file.read_bytes())
    return found.hexdigest()[:12]


def _code(file: Path) -> bool:
    # Files in __pycache__ are derived from their sources, and come and go.
    return file.name.endswith((*importlib.machinery.all_suffixes(), ".java")) and "__pycache__" not in file.parts


@functools.cache
def versions() -> dict[str, str]:
    """Name → version of what a run rests on; `none` where it is not installed."""
    return {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "java": _java(),
        "zookeeper": _zookeeper(),
        "spark": _package("pyspark"),
        "confluent-kafka": _package("confluent-kafka"),
        "librdkafka": _librdkafka(),
        "kazoo": _package("kazoo"),
    }


def _package(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _librdkafka() -> str:
    try:
        import confluent_kafka
    except ImportError:
        return "none"
    return str(confluent_kafka.libversion()[0])


def _java() -> str:
    try:
        return str(find_java_for_spark().version)
    except JavaMissing:
        return "none"


def _zookeeper() -> str:
    try:
        found = [re.fullmatch(r"zookeeper-(\d.*)", jar.stem) for jar in zookeeper_jars()]
    except FileNotFoundError:
        return "none"
    return next((match[1] for match in found if match), "none")
