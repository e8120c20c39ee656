"""Jars from Maven Central, once per machine; `classpath` and `newest_classpath` are those of Kafka's tools."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

VERSION = "3.9.1"
NEWEST = "4.4.0"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>org.example</groupId><artifactId>{name}</artifactId><version>1</version><dependencies>
{dependencies}
</dependencies></project>"""
_DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
    "<exclusions>{}</exclusions></dependency>"
)
_EXCLUSION = "<exclusion><groupId>{}</groupId><artifactId>*</artifactId></exclusion>"


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
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
    jars = cache / "highwater" / name
    if not (jars / "complete").exists():
        jars.mkdir(parents=True, exist_ok=True)
        excluded = "".join(map(_EXCLUSION.format, without))
        dependencies = "\n".join(_DEPENDENCY.format(*artifact.split(":"), excluded) for artifact in artifacts)
        (jars / "pom.xml").write_text(_POM.format(name=name, dependencies=dependencies))
        copy = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        subprocess.run(copy, cwd=jars, check=True, timeout=280)
        (jars / "complete").touch()
    return jars


def _tools(version: str) -> Path:
    artifacts = (f"org.apache.kafka:{artifact}:{version}" for artifact in ("kafka_2.13", "kafka-tools"))
    return maven_jars(f"kafka-tools-{version}", *artifacts)
