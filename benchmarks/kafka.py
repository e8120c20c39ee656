"""Where Apache Kafka's jars and its Java are.

Decides: an installation folder that the user names comes first; otherwise Maven copies the jars once into the user's
cache. Java 17 is preferred, what Kafka 3.9 recommends. Must not know what is run with them.
"""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.process import BenchmarkFailed
from harness.tools.jars import JarsMissing, cached_jars
from harness.tools.java import JavaHome, installed_javas

VERSION = "3.9.1"
_JAVA_WANTED = (17, 21, 11)


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
    try:
        return f"{cached_jars(name, version, artifacts)}/*"
    except JarsMissing as error:
        raise BenchmarkFailed(f"{error}; or name an installation by --kafka-home") from None
