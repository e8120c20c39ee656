"""The Spark session of the checkers: `local[*]` unless a master is named.

Decides memory, shuffle width and how eagerly the JVM compiles; knows nothing of histories but their size. Below
`QUICK_BYTES` a job is too short for code generation and the optimising compiler to pay for themselves (measured: they
take a third of the time of a 20,000-operation run, and a small young generation another quarter); above, both are on.
JAVA_HOME is the environment's business.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from checkers.spark.gateway import shorten_calls
from checkers.spark.workers import use_this_interpreter

QUICK_BYTES = 200_000_000
"""History size below which the short-job settings are used."""

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


def history_bytes(run_dir: Path) -> int:
    """Size of what a run's folder has to be judged: its history and its event logs."""
    files = [run_dir / "history.jsonl", *run_dir.glob("evidence/*/events.jsonl")]
    return sum(file.stat().st_size for file in files if file.is_file())


def open_session(
    master: str | None = None,
    *,
    history_bytes: int = 0,
    driver_memory: str | None = None,
    shuffle_partitions: int | None = None,
) -> SparkSession:
    """Start (or join) a session.

    master: None for all local cores; anything else is handed to Spark as it is. history_bytes: size of what will be
    judged, which chooses between the short-job and the long-job settings.
    """
    quick = history_bytes < QUICK_BYTES
    scratch = Path(tempfile.mkdtemp(prefix="highwater-spark-"))
    # Spark removes what it made in there, not the folder itself.
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    log4j2 = scratch / "log4j2.properties"
    log4j2.write_text(_LOG4J2, encoding="ascii")
    # Spark makes a folder of artifacts in Java's temporary folder for each session. A path may hold spaces.
    folders = [f'"-Dderby.system.home={scratch}"', f'"-Djava.io.tmpdir={scratch}"']
    java_options = [f"-Dlog4j2.configurationFile={log4j2.as_uri()}", *folders]
    if quick:
        java_options += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xms1g", "-Xmn600m", "-XX:-UsePerfData"]
        # With one compiler Java keeps 48 MiB for compiled code; a session that judges many runs fills them and ends.
        java_options.append("-XX:ReservedCodeCacheSize=240m")
    partitions = shuffle_partitions or (1 if quick else 16)
    builder = (
        SparkSession.builder.appName("highwater-checkers")
        .master(master or "local[*]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", driver_memory or ("1536m" if quick else "4g"))
        .config("spark.driver.extraJavaOptions", " ".join(java_options))
        .config("spark.local.dir", str(scratch))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.sql.shuffle.partitions", str(partitions))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.scheduler.mode", "FAIR")
        # Statistics-driven replanning costs a stage boundary per shuffle; short jobs have nothing to win by it.
        .config("spark.sql.adaptive.enabled", "false" if quick else "true")
        .config("spark.sql.codegen.wholeStage", "false" if quick else "true")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN" if quick else "FALLBACK")
        .config("spark.sql.files.openCostInBytes", "65536")
        # Every column expression would otherwise carry its Python call site, three calls to the JVM each.
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")
        # Inferred constraints prune nothing here, and cost more than the rest of the optimiser on wide unions.
        .config("spark.sql.constraintPropagation.enabled", "false")
    )
    if quick:
        # Every sort and every hash table begins with a page, by default of 16 MB or more, and a job has hundreds.
        builder = builder.config("spark.buffer.pageSize", "1m")
        for name, value in _FEWER_RULES.items():
            builder = builder.config(name, value)
    if (master or "local").startswith("local"):
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    session = builder.getOrCreate()
    shorten_calls(session)
    use_this_interpreter(session)
    return session
