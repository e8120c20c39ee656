"""Where Apache Kafka's jars and its Java are.

Decides: an installation folder that the user names comes first; otherwise Maven copies the jars once into the user's
cache. Java 17 is preferred, what Kafka 3.9 recommends. Must not know what is run with them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.process import BenchmarkFailed
from harness.tools.java import JavaHome, cache_folder, installed_javas

VERSION = "3.9.1"
_JAVA_WANTED = (17, 21, 11)
_DOWNLOAD_TIMEOUT_S = 600
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>org.example</groupId><artifactId>kafka-classpath</artifactId><version>1</version><dependencies>
{dependencies}
</dependencies></project>
"""
_DEPENDENCY = (
    "<dependency><groupId>org.apache.kafka</groupId><artifactId>{a}</artifactId><version>{v}</version></dependency>"
)


def java_for_kafka() -> JavaHome:
    """The Java that runs Kafka and its tools. Raises BenchmarkFailed."""
    found = installed_javas()
    for version in _JAVA_WANTED:
        for java in found:
            if java.version == version:
                return java
    raise BenchmarkFailed(
        f"Kafka {VERSION} needs Java 11, 17 or 21; found {[java.version for java in found]}. "
        "On Debian or Ubuntu: apt-get install -y openjdk-17-jre-headless"
    )


def kafka_classpath(home: Path | None) -> str:
    """Class path of brokers and tools: `home`/libs, or jars from Maven Central in the cache. Raises BenchmarkFailed."""
    if home is not None:
        if not list((home / "libs").glob("kafka_2.1*.jar")):
            raise BenchmarkFailed(
                f"--kafka-home {home}: no libs/kafka_2.1*.jar in it; name Kafka's installation folder"
            )
        return f"{home / 'libs'}/*"
    return _from_cache("kafka-tools", VERSION, "kafka_2.13", "kafka-tools")


def client_classpath(version: str) -> str:
    """Class path of Java's client library of that version, from the cache. Raises BenchmarkFailed."""
    return _from_cache("kafka-clients", version, "kafka-clients")


def installed_version(home: Path | None) -> str:
    """Of the jar that is run, 3.9.1 for one. Raises BenchmarkFailed."""
    folder = Path(kafka_classpath(home)).parent
    for jar in sorted(folder.glob("kafka_2.1*.jar")):
        found = re.fullmatch(r"kafka_2\.1\d-(\d[\w.]*)\.jar", jar.name)
        if found:
            return found[1]
    return "of unknown version"


def _from_cache(name: str, version: str, *artifacts: str) -> str:
    """Class path of these artifacts with all that they depend on, which Maven copies once."""
    jars = cache_folder() / f"{name}-{version}"
    if not (jars / "complete").exists():
        _download(jars, version, artifacts)
    return f"{jars}/*"


def _download(jars: Path, version: str, artifacts: Sequence[str]) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise BenchmarkFailed(
            "Kafka's jars are not here: apt-get install -y maven, or name an installation by --kafka-home"
        )
    jars.mkdir(parents=True, exist_ok=True)
    dependencies = "\n".join(_DEPENDENCY.format(a=artifact, v=version) for artifact in artifacts)
    (jars / "pom.xml").write_text(_POM.format(dependencies=dependencies))
    print(f"Copying {' and '.join(artifacts)} {version} from Maven Central to {jars} ...", flush=True)
    done = subprocess.run(
        [maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={jars}"],
        cwd=jars,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_DOWNLOAD_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise BenchmarkFailed(f"mvn dependency:copy-dependencies exited {done.returncode}: {done.stdout[-1500:]}")
    (jars / "complete").touch()
