"""Apache Kafka's jars, once per machine: the fixture `classpath`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

_VERSION = "3.9.1"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>org.example</groupId><artifactId>kafka-tools-classpath</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{v}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{v}</version></dependency>
</dependencies></project>"""


@pytest.fixture(scope="session")
def classpath() -> str:
    """Kafka's jars, kept in the user's cache after the first download."""
    for command in ("java", "mvn"):
        if shutil.which(command) is None:
            pytest.skip(f"needs {command} on the PATH")
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
    jars = cache / "highwater" / f"kafka-tools-{_VERSION}"
    if not (jars / "complete").exists():
        jars.mkdir(parents=True, exist_ok=True)
        (jars / "pom.xml").write_text(_POM.format(v=_VERSION))
        copy = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        subprocess.run(copy, cwd=jars, check=True, timeout=280)
        (jars / "complete").touch()
    return f"{jars}/*"
