"""The program of `LabClient.java`: which Java runs it, with which version of the client, compiled once.

Decides where compiled classes lie, and what is said where something is missing. Must not know lines.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.tools.build_step import build_step
from harness.tools.jars import JarsMissing, cached_jars
from harness.tools.java import JavaHome, cache_folder, installed_javas
from harness.tools.partial_folder import partial_folder

VERSIONS = ("3.9.1", "4.4.0")
"""Of org.apache.kafka:kafka-clients that runs are made with; the first where a run file names none."""
JAVA_LEAST = 17
_COMPILE_TIMEOUT_S = 120
# What Java itself has to say must not stand between lines: by default it goes to standard output.
_TO_ERRORS = ("-Xlog:disable", "-Xlog:all=warning:stderr", "-XX:+DisplayVMOutputToStderr")
_SMALL = ("-Xms16M", "-Xmx96M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_JAVA = (*_TO_ERRORS, *_SMALL, "-XX:-UsePerfData", "-XX:+ExitOnOutOfMemoryError")
_SOURCES = Path(__file__).resolve().parent


class ClientMissing(Exception):
    """The Java client cannot be run here; the text says what is missing and how to get it."""


@dataclass(frozen=True, slots=True)
class Program:
    """argv: starts one process of it. version: of the client; java: the feature release that runs it."""

    argv: Sequence[str]
    version: str
    java: int


def client_program(version: str) -> Program:
    """Ready to be started; fetched and compiled the first time, which may take minutes.

    Raises ClientMissing, and BuildFailed where the program does not compile.
    """
    java = _compiling_java()
    try:
        jars = cached_jars("kafka-clients", version, ["kafka-clients"])
    except JarsMissing as error:
        raise ClientMissing(f"the Java client {version} is not here: {error}") from None
    classes = _compiled(java, jars, version)
    return Program((str(java.executable), *_JAVA, "-cp", f"{classes}:{jars}/*", "LabClient"), version, java.version)


def _compiling_java() -> JavaHome:
    found = installed_javas()
    for java in found:
        if java.version >= JAVA_LEAST and os.access(java.home / "bin" / "javac", os.X_OK):
            return java
    named = ", ".join(f"{java.version} at {java.home}" for java in found) or "none"
    raise ClientMissing(
        f"the Java client needs a JDK, with javac, of Java {JAVA_LEAST} or later; found Java: {named}. "
        "On Debian or Ubuntu: apt-get install -y openjdk-17-jdk-headless maven"
    )


def _compiled(java: JavaHome, jars: Path, version: str) -> Path:
    sources = sorted(_SOURCES.glob("*.java"))
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    classes = cache_folder() / f"lab-client-{version}-java{java.version}-{digest}"
    if classes.exists():
        return classes
    with partial_folder(classes) as folder:
        new = folder / "classes"
        command = [str(java.home / "bin" / "javac"), "-cp", f"{jars}/*", "-d", str(new), *map(str, sources)]
        build_step("javac", command, folder, _COMPILE_TIMEOUT_S)
        try:
            new.rename(classes)
        except OSError:
            # Somebody else was faster.
            if not classes.exists():
                raise
    return classes
