"""Jars of Maven Central, copied once into the user's cache.

Decides where they lie, and what is said where they cannot be had. Must not know what is run with them.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness.tools.java import cache_folder

KAFKA = "org.apache.kafka"
_DOWNLOAD_TIMEOUT_S = 600
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>org.example</groupId><artifactId>classpath</artifactId><version>1</version><dependencies>
{dependencies}
</dependencies></project>
"""
_DEPENDENCY = "<dependency><groupId>{g}</groupId><artifactId>{a}</artifactId><version>{v}</version></dependency>"


class JarsMissing(Exception):
    """Jars are not in the cache and could not be copied; the text names them, and what would help."""


def cached_jars(name: str, version: str, artifacts: Sequence[str], *, group: str = KAFKA) -> Path:
    """The folder with these artifacts and all that they depend on. name: of the folder, other for other artifacts.

    Asks Maven Central the first time, for minutes if need be. Raises JarsMissing.
    """
    jars = cache_folder() / f"{name}-{version}"
    if not (jars / "complete").exists():
        _copy(jars, [f"{group}:{artifact}:{version}" for artifact in artifacts])
    return jars


def _copy(jars: Path, artifacts: Sequence[str]) -> None:
    wanted = " and ".join(artifacts)
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsMissing(
            f"{wanted}: not in {jars}, and mvn, which copies it there from Maven Central, is missing. "
            "On Debian or Ubuntu: apt-get install -y maven"
        )
    jars.mkdir(parents=True, exist_ok=True)
    parts = (artifact.split(":") for artifact in artifacts)
    dependencies = "\n".join(_DEPENDENCY.format(g=group, a=name, v=version) for group, name, version in parts)
    (jars / "pom.xml").write_text(_POM.format(dependencies=dependencies))
    print(f"Copying {wanted} from Maven Central to {jars} ...", flush=True)
    try:
        done = subprocess.run(
            [maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={jars}"],
            cwd=jars,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_DOWNLOAD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise JarsMissing(f"{wanted}: mvn did not end within {_DOWNLOAD_TIMEOUT_S} s") from None
    if done.returncode != 0:
        raise JarsMissing(f"{wanted}: mvn dependency:copy-dependencies exited {done.returncode}: {done.stdout[-1500:]}")
    (jars / "complete").touch()
