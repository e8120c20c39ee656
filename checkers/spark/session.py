"""The Spark session of the checkers: `local[*]` unless a master is named, or spark-submit has one.

Decides memory, shuffle width and how eagerly the JVM compiles; knows nothing of histories but their size. Below
`QUICK_BYTES` a job is too short for whole stages of generated code, shuffles and the optimising compiler to pay for
themselves; above, all are on. The compiler pays for itself from the eighth such job of a session on: of a run of 8,300
lines judged again and again the first takes 57 CPU seconds with it and 42 without, the thirteenth 17 and 28. From
`CODED_BYTES` on expressions alone are compiled: that costs a run of 80 lines 6 CPU seconds more and saves one of
160,000 lines 5 of 49, and 13 of 42 in a session that has judged such a run before.
JAVA_HOME is the environment's business.
"""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from checkers.spark.gateway import shorten_calls
from checkers.spark.master import is_local, is_on_loopback, is_submitted, pieces_for, submitted
from checkers.spark.places import Place, Stored
from checkers.spark.tables import in_one_piece
from checkers.spark.workers import use_this_interpreter

_FACTORY = "spark.sql.codegen.factoryMode"

QUICK_BYTES = 100_000_000
"""History size below which the short-job settings are used."""

CODED_BYTES = 16_000_000
"""History size from which a short job's expressions are compiled: rows take two thirds of the time then. Before, what
is compiled runs too seldom to pay for it.
"""

# Warnings of a run that works (native library, host name) would bury the verdict.
_LOG4J2 = """
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
"""

# Rules that go through every plan and change none of the checkers', or only what would be read of long tables.
_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer"
_UNUSED = ("EliminateAggregateFilter", "MergeScalarSubqueries", "OptimizeOneRowRelationSubquery")
_FEWER_RULES = {
    "spark.sql.optimizer.excludedRules": ",".join(f"{_OPTIMIZER}.{rule}" for rule in _UNUSED),
    "spark.sql.optimizer.nestedSchemaPruning.enabled": "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
}

_COMPILED_LATER = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
"""Ten times Java's own: much of a long job's code runs too seldom to pay for the optimising compiler. 10⁷
micro-operations take 127 CPU seconds instead of 140; at forty times as much, too.
"""

_TO_JUDGE = r"history\.jsonl|evidence/[^/]+/events\.jsonl"
_ON_LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}

# They live as long as the job, too short for the optimising compiler.
_SHORT_EXECUTORS = {
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
}


def history_bytes(run_dir: Place) -> int:
    """Size of what a run's folder has to be judged: its history and its event logs."""
    if isinstance(run_dir, Stored):
        sizes = run_dir.files.sizes(run_dir.uri)
        return sum(size for name, size in sizes.items() if re.fullmatch(_TO_JUDGE, name))
    files = [run_dir / "history.jsonl", *run_dir.glob("evidence/*/events.jsonl")]
    return sum(file.stat().st_size for file in files if file.is_file())


def open_session(
    master: str | None = None,
    *,
    history_bytes: int = 0,
    driver_memory: str | None = None,
    shuffle_partitions: int | None = None,
    conf: Mapping[str, str] | None = None,
    many: bool = False,
) -> SparkSession:
    """Start (or join) a session.

    master: None for that of spark-submit, or else all local cores; anything else is handed to Spark as it is.
    history_bytes: size of what will be judged, which chooses between the short-job and the long-job settings. conf:
    settings that go before all others. many: it will judge ten short runs or more, which pay for Java's optimising
    compiler together.
    """
    given = submitted()
    master = master or given.get("spark.master", "local[*]")
    quick = history_bytes < QUICK_BYTES
    scratch = _scratch()
    pieces = shuffle_partitions or (1 if quick else pieces_for(history_bytes) if not is_local(master) else 16)
    settings = {
        **_of_driver(scratch, driver_memory or ("1536m" if quick else "4g"), quick=quick, many=many),
        **_of_queries(pieces, quick=quick),
        **(_ON_LOOPBACK if is_on_loopback(master) else {}),
        **(_SHORT_EXECUTORS if quick and not is_local(master) else {}),
        **given,
        "spark.master": master,
        **(conf or {}),
    }
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    shorten_calls(session)
    use_this_interpreter(session)
    return session


def suit(session: SparkSession, history_bytes: int, conf: Mapping[str, str] | None = None) -> None:
    """For one run of that size: have a short job's session compile expressions, or not. Nothing to any other, nor where
    the user's settings say it.
    """
    if in_one_piece(session) and _FACTORY not in (conf or {}):
        session.conf.set(_FACTORY, _factory(history_bytes))


def _factory(history_bytes: int) -> str:
    return "FALLBACK" if history_bytes >= CODED_BYTES else "NO_CODEGEN"


def start_java(master: str | None, conf: Mapping[str, str]) -> None:
    """Java for a session that is opened once it is known what there is to judge. Where one runs, nothing."""
    if SparkContext._gateway is not None:
        return
    of_java = _of_driver(_scratch(), "4g", quick=False)
    settings = {**of_java, **({"spark.master": master} if master else {}), **conf}
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(list(settings.items())))


def _scratch() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="highwater-spark-"))
    # Spark removes what it made in there, not the folder itself.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _of_driver(scratch: Path, memory: str, *, quick: bool, many: bool = False) -> dict[str, str]:
    """The process that plans and collects, its Java, and where it keeps its files; executors have their own."""
    log4j2 = scratch / "log4j2.properties"
    log4j2.write_text(_LOG4J2, encoding="ascii")
    # Spark makes a folder of artifacts in Java's temporary folder for each session. A path may hold spaces.
    folders = [f'"-Dderby.system.home={scratch}"', f'"-Djava.io.tmpdir={scratch}"']
    java_options = [f"-Dlog4j2.configurationFile={log4j2.as_uri()}", *folders, "-XX:-UsePerfData"]
    if quick:
        java_options += ["-XX:+UseSerialGC", "-Xms1g", "-Xmn600m"]
        if not many:
            java_options.append("-XX:TieredStopAtLevel=1")
        # With one compiler Java keeps 48 MiB for compiled code; a session that judges many runs fills them and ends.
        java_options.append("-XX:ReservedCodeCacheSize=240m")
    else:
        # What matters is the whole, not the longest pause: a tenth of the time less than with Java's own choice.
        java_options += ["-XX:+UseParallelGC", *_COMPILED_LATER]
    of_java = {"spark.driver.memory": memory, "spark.driver.extraJavaOptions": " ".join(java_options)}
    return {
        "spark.app.name": "highwater-checkers",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.scheduler.mode": "FAIR",
        **({"spark.log.level": "ERROR"} if is_submitted() else of_java),
    }


def _of_queries(pieces: int, *, quick: bool) -> dict[str, str]:
    """How queries are planned and carried out."""
    settings = {
        "spark.sql.shuffle.partitions": str(pieces),
        "spark.sql.session.timeZone": "UTC",
        # Statistics-driven replanning costs a stage boundary per shuffle; short jobs have nothing to win by it.
        "spark.sql.adaptive.enabled": "false" if quick else "true",
        "spark.sql.codegen.wholeStage": "false" if quick else "true",
        _FACTORY: "NO_CODEGEN" if quick else "FALLBACK",
        "spark.sql.files.openCostInBytes": "65536",
        # Every column expression would otherwise carry its Python call site, three calls to the JVM each.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # Inferred constraints prune nothing here, and cost more than the rest of the optimiser on wide unions.
        "spark.sql.constraintPropagation.enabled": "false",
    }
    if quick:
        # Every sort and every hash table begins with a page, by default of 16 MB or more, and a job has hundreds.
        settings |= {"spark.buffer.pageSize": "1m", **_FEWER_RULES}
        # A judgement has more expressions than the 100 that are kept by default; the next one finds them again.
        settings["spark.sql.codegen.cache.maxEntries"] = "5000"
        # Without it Spark reads the class file of each step of a query, to see what the step's function holds.
        settings["spark.sql.execution.usePartitionEvaluator"] = "true"
    return settings
