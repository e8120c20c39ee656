"""Files of Hadoop's file systems (HDFS, S3A, viewfs …), by the Java that Spark runs in.

What is asked for goes through `org.apache.hadoop.fs.FileSystem` with the settings that Spark itself has
(`spark.hadoop.*`), so that a URI means the same to the driver and to Spark's workers. Lists are asked for once: nobody
changes a run that is judged. Knows nothing of what the files hold.

A file is written beside its place, under a name that Spark passes over, and renamed. `FileSystem.rename` does not
replace: what stood there is deleted first. So nobody sees half of a file, and for a moment there may be none. On HDFS
the renaming is one change of its name node; a store of objects copies the whole, which is there at once there, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from checkers.spark.places import UnknownPlace, address


class HadoopFiles:
    """`spark_conf`: settings that go before those of the Java that runs. Needs that Java, and no session but for
    `lines`. Raises UnknownPlace where the file system cannot be reached or asked, with the name of what was asked for.
    """

    def __init__(self, root: str, spark_conf: Mapping[str, str]) -> None:
        jvm = SparkContext._jvm
        assert jvm is not None
        self._jvm: Any = jvm
        conf = jvm.SparkConf(True)
        for name, value in spark_conf.items():
            conf.set(name, value)
        with _asked(root):
            path = self._path(root)
            self._system = path.getFileSystem(jvm.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(conf))
            self.root = str(self._system.makeQualified(path).toString()).rstrip("/")
            """The folder's whole name, as Spark says it too."""
            self._sizes = dict(self._listed(path))

    def sizes(self, folder: str) -> Mapping[str, int]:
        below = self._name(folder)
        start = f"{below}/" if below else ""
        return {name[len(start) :]: size for name, size in self._sizes.items() if name.startswith(start)}

    def size(self, file: str) -> int | None:
        return self._sizes.get(self._name(file))

    def end(self, file: str, length: int) -> bytes:
        with self._opened(file) as stream:
            stream.seek(max(0, self._sizes[self._name(file)] - length))
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))

    def sha256(self, file: str) -> str:
        with self._opened(file) as stream:
            return str(self._jvm.org.apache.commons.codec.digest.DigestUtils.sha256Hex(stream))

    def lines(self, file: str, part: str) -> Iterator[bytes]:
        with _asked(file):
            text = SparkSession.builder.getOrCreate().read.text(file)
            rows = text.where(F.col("value").contains(part)).collect()
        for row in rows:
            yield str(row.value).encode()

    def fetch(self, file: str, to: Path) -> None:
        to.parent.mkdir(parents=True, exist_ok=True)
        # By the raw local file system, which keeps no files of checksums beside others.
        with _asked(file):
            self._system.copyToLocalFile(False, self._path(file), self._path(address(to)), True)

    def put(self, source: Path, file: str) -> None:
        folder, _, name = file.rpartition("/")
        part, whole = self._path(f"{folder}/.{name}.part"), self._path(file)
        with _asked(file):
            self._system.copyFromLocalFile(False, True, self._path(address(source)), part)
            self._system.delete(whole, False)
            if not self._system.rename(part, whole):
                raise UnknownPlace(f"{file}: {part.toString()} cannot be renamed to it")

    def remove(self, place: str) -> None:
        with _asked(place):
            self._system.delete(self._path(place), True)

    @contextmanager
    def _opened(self, file: str) -> Iterator[Any]:
        with _asked(file):
            stream = self._system.open(self._path(file))
            try:
                yield stream
            finally:
                stream.close()

    def _listed(self, root: Any) -> Iterator[tuple[str, int]]:
        found = self._system.listFiles(root, True)
        while found.hasNext():
            status = found.next()
            yield status.getPath().toString()[len(self.root) + 1 :], int(status.getLen())

    def _name(self, place: str) -> str:
        """Below the root; empty for the root itself."""
        return place[len(self.root) + 1 :]

    def _path(self, uri: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(uri)


@contextmanager
def _asked(place: str) -> Iterator[None]:
    """Raises UnknownPlace in place of what Java or Spark throws."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise UnknownPlace(f"{place}: {_reason(error)}") from None


def _reason(error: Py4JJavaError | PySparkException) -> str:
    """In a line; with what helps where Hadoop lacks the file system."""
    thrown = str(error.java_exception.toString() if isinstance(error, Py4JJavaError) else error).splitlines()[0]
    if "No FileSystem for scheme" in thrown or "ClassNotFoundException" in thrown:
        return (
            f"Hadoop has no such file system here ({thrown}); its jars come with --spark-conf"
            " spark.jars.packages=GROUP:ARTIFACT:VERSION (docs/scale.md)"
        )
    return thrown
