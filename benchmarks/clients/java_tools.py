"""The performance tools that come with Kafka, run as kafka-run-class.sh runs them.

Decides their command lines and how their last lines are read. They take much of a core for themselves: each result says
what CPU the tool used.
"""

from __future__ import annotations

import re
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.kafka import java_for_kafka, kafka_classpath
from benchmarks.process import BenchmarkFailed, Said, run_program

RUN_TIMEOUT_S = 400.0
CONSUME_TIMEOUT_MS = 15000
_JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
_LOG4J = """\
log4j.rootLogger=WARN, stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.Target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
_PRODUCED = re.compile(
    r"^(?P<records>\d+) records sent, (?P<rate>[\d.]+) records/sec .*?(?P<mean>[\d.]+) ms avg latency, "
    r"(?P<max>[\d.]+) ms max latency, (?P<p50>\d+) ms 50th, (?P<p95>\d+) ms 95th, (?P<p99>\d+) ms 99th, "
    r"(?P<p999>\d+) ms 99\.9th",
    re.MULTILINE,
)

_PROCESSED = re.compile(r"^Processed a total of (\d+) messages", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """seconds: by the tool's own clock; exited_ns: CLOCK_MONOTONIC; cpu_s: the tool's own, its JVM's start included."""

    records: int
    seconds: float
    exited_ns: int
    cpu_s: float


def parse_produced(output: str) -> tuple[int, float]:
    """Records and seconds of ProducerPerformance's last line. Raises BenchmarkFailed when it has none."""
    lines = list(_PRODUCED.finditer(output))
    if not lines or float(lines[-1]["rate"]) <= 0:
        raise BenchmarkFailed(f"kafka-producer-perf-test: no summary in its output: {output[-300:]!r}")
    records = int(lines[-1]["records"])
    return records, records / float(lines[-1]["rate"])


def parse_consumed(output: str) -> tuple[int, float]:
    """Records and seconds of fetching, without joining the group, of ConsumerPerformance. Raises BenchmarkFailed."""
    for line in reversed(output.splitlines()):
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 10 and fields[4].isdigit():
            return int(fields[4]), int(fields[7]) / 1000
    raise BenchmarkFailed(f"kafka-consumer-perf-test: no summary in its output: {output[-300:]!r}")


def parse_processed(errors: str) -> int:
    """Records that ConsoleConsumer says it processed, on standard error. Raises BenchmarkFailed."""
    found = _PROCESSED.findall(errors)
    if not found:
        raise BenchmarkFailed(f"kafka-console-consumer: it does not say how many records it saw: {errors[-300:]!r}")
    return int(found[-1])


class JavaTools:
    """Runs the tools against one cluster."""

    def __init__(self, home: Path | None, bootstrap: str, folder: Path) -> None:
        self._bootstrap = bootstrap
        self._classpath = kafka_classpath(home)
        self._java = str(java_for_kafka().executable)
        self._log4j = folder / "tools-log4j.properties"
        self._log4j.write_text(_LOG4J)

    def produce(self, topic: str, records: int, record_bytes: int, properties: Mapping[str, str]) -> ToolResult:
        """`kafka-producer-perf-test` without a limit of its own. Raises BenchmarkFailed."""
        settings = {"bootstrap.servers": self._bootstrap, **properties}
        arguments = ["--topic", topic, "--num-records", str(records), "--record-size", str(record_bytes)]
        arguments += [
            "--throughput",
            "-1",
            "--producer-props",
            *(f"{name}={value}" for name, value in settings.items()),
        ]
        said, cpu_s, exited_ns = self._run("org.apache.kafka.tools.ProducerPerformance", arguments)
        done, seconds = parse_produced(said.output)
        return ToolResult(done, seconds, exited_ns, cpu_s)

    def consume(self, topic: str, records: int) -> ToolResult:
        """`kafka-consumer-perf-test` of the whole topic, in a group of its own. Raises BenchmarkFailed."""
        arguments = ["--bootstrap-server", self._bootstrap, "--topic", topic, "--messages", str(records)]
        arguments += ["--timeout", str(CONSUME_TIMEOUT_MS), "--group", f"bench-{topic}"]
        said, cpu_s, exited_ns = self._run("org.apache.kafka.tools.ConsumerPerformance", arguments)
        done, seconds = parse_consumed(said.output)
        return ToolResult(done, seconds, exited_ns, cpu_s)

    def consume_partition(self, topic: str, records: int) -> ToolResult:
        """`kafka-console-consumer` of partition 0, without a group and printing nothing; its JVM's start is counted, as
        the tool has no clock of its own. Raises BenchmarkFailed, also when it says that it saw another number.
        """
        arguments = ["--bootstrap-server", self._bootstrap, "--topic", topic, "--partition", "0"]
        arguments += ["--offset", "earliest", "--max-messages", str(records), "--timeout-ms", str(CONSUME_TIMEOUT_MS)]
        arguments += ["--formatter", "org.apache.kafka.tools.consumer.NoOpMessageFormatter"]
        begun_ns = time.monotonic_ns()
        said, cpu_s, exited_ns = self._run("org.apache.kafka.tools.consumer.ConsoleConsumer", arguments)
        done = parse_processed(said.errors)
        if done != records:
            raise BenchmarkFailed(f"kafka-console-consumer: it saw {done} records, {records} were asked for")
        return ToolResult(done, (exited_ns - begun_ns) / 1e9, exited_ns, cpu_s)

    def _run(self, main: str, arguments: list[str]) -> tuple[Said, float, int]:
        log = f"-Dlog4j.configuration=file:{self._log4j}"
        before = _children_cpu_s()
        argv = [self._java, "-Xmx512M", *_JVM, log, "-cp", self._classpath, main, *arguments]
        said = run_program(argv, RUN_TIMEOUT_S)
        return said, _children_cpu_s() - before, time.monotonic_ns()


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
