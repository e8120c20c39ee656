"""Which client libraries there are, how the driver of each is built, and what is missing where one cannot be.

What is built or fetched lies in the user's cache, once for each state of its sources.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.kafka import client_classpath, java_for_kafka
from benchmarks.process import BenchmarkFailed
from benchmarks.systems import ROOT
from harness.tools.build_step import BuildFailed, build_step
from harness.tools.java import cache_folder

_DRIVERS = Path(__file__).resolve().parent / "drivers"
_JAVA_SOURCE = _DRIVERS / "FailoverDriver.java"
_BUILD_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class Client:
    """argv: to which work, bootstrap servers, topic and id are added."""

    name: str
    version: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


def build(name: str) -> Client:
    """The client, ready to be started. Raises BenchmarkFailed that says what is missing."""
    return _BUILDERS[name](name)


def _python(name: str) -> Client:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        raise BenchmarkFailed(f"{name}: the Python package is not installed: pip install {name}") from None
    module = f"benchmarks.applications.drivers.with_{name.replace('-', '_')}"
    return Client(name, version, (sys.executable, "-m", module), {"PYTHONPATH": str(ROOT)})


def _java(name: str, version: str) -> Client:
    compiler = shutil.which("javac")
    if compiler is None:
        raise BenchmarkFailed(f"{name}: javac is missing: apt-get install -y openjdk-17-jdk-headless")
    jars = client_classpath(version)
    classes = cache_folder() / f"failover-{version}-{_digest(_JAVA_SOURCE)}"
    if not classes.exists():
        partial = classes.with_suffix(".new")
        _run(name, [compiler, "-cp", jars, "-d", str(partial), str(_JAVA_SOURCE)], _DRIVERS)
        partial.rename(classes)
    java = str(java_for_kafka().executable)
    return Client(name, version, (java, "-Xmx256M", "-cp", f"{classes}:{jars}", _JAVA_SOURCE.stem))


def _franz_go(name: str) -> Client:
    compiler = shutil.which("go")
    if compiler is None:
        raise BenchmarkFailed(f"{name}: go is missing: apt-get install -y golang-go")
    sources = _DRIVERS / "franz"
    module = (sources / "go.mod").read_text()
    found = re.search(r"github\.com/twmb/franz-go v(\S+)", module)
    program = cache_folder() / f"failover-franz-{_digest(*sorted(sources.iterdir()))}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        partial = program.with_suffix(".new")
        _run(name, [compiler, "build", "-o", str(partial), "."], sources)
        partial.rename(program)
    return Client(name, found[1] if found else "of unknown version", (str(program),))


def _run(name: str, argv: list[str], folder: Path) -> None:
    try:
        build_step(argv[0], argv, folder, _BUILD_TIMEOUT_S)
    except BuildFailed as error:
        raise BenchmarkFailed(f"{name}: {error}") from None


def _digest(*paths: Path) -> str:
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest()[:12]


_BUILDERS: Mapping[str, Callable[[str], Client]] = {
    "confluent-kafka": _python,
    "java-3.9": lambda name: _java(name, "3.9.1"),
    "java-4": lambda name: _java(name, "4.4.0"),
    "kafka-python": _python,
    "aiokafka": _python,
    "franz-go": _franz_go,
}
NAMES = tuple(_BUILDERS)
