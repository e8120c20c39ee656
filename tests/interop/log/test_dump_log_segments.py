"""Apache Kafka's own DumpLogSegments reads segments and indexes of this broker and finds no mismatch in them."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.property.log.log_tools import TP, Clock, batch, kill, open_log, open_store

pytestmark = pytest.mark.nightly

_VERSION = "3.9.1"
_BATCHES = 1500
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>org.example</groupId><artifactId>kafka-tools-classpath</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{v}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{v}</version></dependency>
</dependencies></project>"""


@pytest.fixture(scope="module")
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


def _dump(classpath: str, home: Path) -> str:
    files = sorted(str(file) for file in home.iterdir() if file.suffix in (".log", ".index", ".timeindex"))
    tool = ["java", "-cp", classpath, "kafka.tools.DumpLogSegments", "--deep-iteration", "--files", ",".join(files)]
    done = subprocess.run(tool, capture_output=True, text=True, timeout=120, check=True)
    # Mismatches are reported on stderr.
    return done.stdout + done.stderr


def _mismatches(output: str) -> list[str]:
    known = ("baseOffset:", "|", "offset:", "timestamp:", "Dumping ", "Log starting offset:", "log4j:")
    return [line for line in output.splitlines() if line and not line.startswith(known)]


def _fill(path: str, clean: bool) -> Path:
    chance = random.Random(3)
    store = open_store(path, Clock(), {"segment.bytes": "100000"})
    log = open_log(store)
    for value in range(_BATCHES):
        timestamp = 1000 + value + chance.randint(-50, 50)
        log.append_as_leader(batch(value, 1 + value % 5, timestamp, chance.randint(0, 300)), value // 400)
        if value % 7 == 0:
            log.write()
    log.write()
    if clean:
        store.close(clean=True)
    else:
        kill(store)
        open_store(path, Clock()).close(clean=True)
    return Path(path, str(TP))


@pytest.mark.parametrize("clean", [True, False])
def test_kafka_dumps_a_log_without_mismatch(tmp_path: Path, classpath: str, clean: bool) -> None:
    output = _dump(classpath, _fill(str(tmp_path / "data"), clean))
    assert output.count("isvalid: true") == _BATCHES
    assert _mismatches(output) == []


def test_kafka_sees_an_index_entry_that_lies(tmp_path: Path, classpath: str) -> None:
    home = _fill(str(tmp_path / "data"), clean=True)
    with open(home / f"{0:020d}.index", "r+b") as file:
        file.seek(8)
        entry = file.read(4)
        file.seek(8)
        file.write((int.from_bytes(entry, "big") + 1).to_bytes(4, "big"))
    assert _mismatches(_dump(classpath, home))
