"""Jars from Maven Central, once per machine; `classpath` and `newest_classpath` are those of Kafka's tools."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.tools import jars

VERSION = "3.9.1"
NEWEST = "4.4.0"


@pytest.fixture(scope="session")
def classpath() -> str:
    """Of Kafka 3.9, the version that the broker is like."""
    return f"{_tools(VERSION)}/*"


@pytest.fixture(scope="session")
def newest_classpath() -> str:
    """Of Kafka 4, whose clients no longer speak the protocol of before 2.1 (KIP-896)."""
    return f"{_tools(NEWEST)}/*"


def maven_jars(name: str, *artifacts: str, without: tuple[str, ...] = ()) -> Path:
    """A folder with these "group:artifact:version" and all that they need, in the user's cache from the first call on.

    name: of the folder, other for other artifacts. without: groups that something else brings.
    """
    for command in ("java", "mvn"):
        if shutil.which(command) is None:
            pytest.skip(f"needs {command} on the PATH")
    return jars.maven_jars(name, artifacts, without)


def _tools(version: str) -> Path:
    artifacts = (f"org.apache.kafka:{artifact}:{version}" for artifact in ("kafka_2.13", "kafka-tools"))
    return maven_jars(f"kafka-tools-{version}", *artifacts)
