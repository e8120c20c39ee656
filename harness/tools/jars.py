"""Jars of Maven Central, copied once into the user's cache.

Decides where they lie, and what is said where they cannot be had. Must not know what is run with them.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Sequence
from pathlib import Path

from harness.tools.build_step import BuildFailed, build_step
from harness.tools.java import cache_folder

KAFKA = "org.apache.kafka"
_DOWNLOAD_TIMEOUT_S = 600
_TRIES = 3
"""A name that is not found, or a connection that breaks, mostly is there a moment later."""
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
"""By its whole name: the short one is looked up first, in lists that may be missing just then."""
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>org.example</groupId><artifactId>classpath</artifactId><version>1</version><dependencies>
{dependencies}
</dependencies></project>
"""
_DEPENDENCY = (
    "<dependency><groupId>{g}</groupId><artifactId>{a}</artifactId><version>{v}</version>"
    "<exclusions>{excluded}</exclusions></dependency>"
)
_EXCLUSION = "<exclusion><groupId>{}</groupId><artifactId>*</artifactId></exclusion>"


class JarsMissing(Exception):
    """Jars are not in the cache and could not be copied; the text names them, and what would help."""


def cached_jars(name: str, version: str, artifacts: Sequence[str], *, group: str = KAFKA) -> Path:
    """The folder with these artifacts and all that they depend on. name: of the folder, other for other artifacts.

    Asks Maven Central the first time, for minutes if need be. Raises JarsMissing.
    """
    return maven_jars(f"{name}-{version}", [f"{group}:{artifact}:{version}" for artifact in artifacts])


def maven_jars(name: str, artifacts: Sequence[str], without: Sequence[str] = ()) -> Path:
    """The same for artifacts of any groups, each "group:artifact:version". without: groups that others bring."""
    jars = cache_folder() / name
    complete = jars / "complete"
    if not complete.exists():
        jars.mkdir(parents=True, exist_ok=True)
        with (jars / "lock").open("w") as lock:
            # Another process may copy them just now, and would leave half a jar to be taken for a whole one.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not complete.exists():
                _copy(jars, artifacts, without)
                complete.touch()
    return jars


def _copy(jars: Path, artifacts: Sequence[str], without: Sequence[str]) -> None:
    wanted = " and ".join(artifacts)
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsMissing(
            f"{wanted}: not in {jars}, and mvn, which copies it there from Maven Central, is missing. "
            "On Debian or Ubuntu: apt-get install -y maven"
        )
    parts = (artifact.split(":") for artifact in artifacts)
    excluded = "".join(map(_EXCLUSION.format, without))
    dependencies = "\n".join(
        _DEPENDENCY.format(g=group, a=name, v=version, excluded=excluded) for group, name, version in parts
    )
    (jars / "pom.xml").write_text(_POM.format(dependencies=dependencies))
    print(f"Copying {wanted} from Maven Central to {jars} ...", flush=True)
    # -U: Maven keeps in mind what it could not get, and would not ask again.
    argv = [maven, "-q", "-B", "-U", _COPY, f"-DoutputDirectory={jars}"]
    try:
        build_step("mvn dependency:copy-dependencies", argv, jars, _DOWNLOAD_TIMEOUT_S, tries=_TRIES)
    except BuildFailed as error:
        raise JarsMissing(f"{wanted}: {error}") from None
