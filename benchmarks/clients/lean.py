"""The lean client: our C load generator (benchmarks/lean), built once, run as a program.

Decides how it is built and how its answer is read. It builds each batch once and sends it again and again, so what it
costs is the kernel's work, not the making of records: it can ask more of a broker than a producer library on the same
cores.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.clients.compile import compile_c
from benchmarks.process import BenchmarkFailed, Client, run_tool

SOURCES = Path(__file__).resolve().parents[1] / "lean"
RUN_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Latencies:
    """µs; -1 where nothing was counted."""

    count: int
    p50: float
    p99: float
    p999: float
    max: float


@dataclass(frozen=True, slots=True)
class LeanResult:
    """first_send_ns, last_ack_ns: CLOCK_MONOTONIC. bytes: of batches, headers included."""

    records: int
    failed_records: int
    first_error: int
    requests: int
    bytes: int
    first_send_ns: int
    last_ack_ns: int
    cpu_s: float
    latency_us: Latencies

    @property
    def seconds(self) -> float:
        return (self.last_ack_ns - self.first_send_ns) / 1e9


def parse_result(output: str) -> LeanResult:
    """The JSON line that the program prints. Raises BenchmarkFailed when it is none."""
    try:
        told: Mapping[str, object] = json.loads(output)
        latency = told["latency_us"]
        assert isinstance(latency, dict)
        return LeanResult(
            records=_integer(told, "records"),
            failed_records=_integer(told, "failed_records"),
            first_error=_integer(told, "first_error"),
            requests=_integer(told, "requests"),
            bytes=_integer(told, "bytes"),
            first_send_ns=_integer(told, "first_send_ns"),
            last_ack_ns=_integer(told, "last_ack_ns"),
            cpu_s=float(str(told["cpu_s"])),
            latency_us=Latencies(
                int(latency["count"]), *(float(latency[name]) for name in ("p50", "p99", "p999", "max"))
            ),
        )
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        raise BenchmarkFailed(f"lean: its answer cannot be read ({error!r}): {output[:300]!r}") from None


def _integer(told: Mapping[str, object], name: str) -> int:
    value = told[name]
    if not isinstance(value, int):
        raise ValueError(f"{name} is {value!r}")
    return value


@dataclass(frozen=True, slots=True)
class Attempt:
    """One line of `lean probe`: when it was sent, when its fate was known, by which broker it was taken, and where."""

    sent_ns: int
    known_ns: int
    broker: int | None
    offset: int | None = None

    @property
    def succeeded(self) -> bool:
        return self.broker is not None


def parse_attempts(output: str) -> list[Attempt]:
    """Lines of `lean probe`; a torn last one is left out."""
    attempts = []
    for line in output.split("\n")[:-1]:
        sent, known, offset, broker = line.split()
        taken = broker != "-"
        attempts.append(Attempt(int(sent), int(known), int(broker) if taken else None, int(offset) if taken else None))
    return attempts


def build() -> Path:
    """The program. Raises BenchmarkFailed when it cannot be compiled."""
    return compile_c("lean", SOURCES, "apt-get install -y build-essential")


class LeanRun:
    """A `lean` in the background."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def finish(self) -> LeanResult:
        """Wait for its end. Raises BenchmarkFailed."""
        return parse_result(self._client.finish(RUN_TIMEOUT_S).output)

    def kill(self) -> None:
        self._client.kill()


class Lean:
    """Runs the program against one cluster's topic."""

    def __init__(self, program: Path, bootstrap: str) -> None:
        self._program = program
        self._bootstrap = bootstrap

    def command(self, what: str, topic: str, **options: float) -> list[str]:
        """Its command line; an option record_bytes=1 becomes --record-bytes 1."""
        told = [f"--{name.replace('_', '-')}={value}".partition("=") for name, value in options.items()]
        pairs = [part for name, _, value in told for part in (name, value)]
        return [str(self._program), what, "--bootstrap", self._bootstrap, "--topic", topic, *pairs]

    def produce(self, topic: str, **options: float) -> LeanResult:
        """Run `lean produce` to its end. Raises BenchmarkFailed."""
        return parse_result(run_tool(self.command("produce", topic, **options), RUN_TIMEOUT_S))

    def begin(self, what: str, topic: str, **options: float) -> LeanRun:
        """Run it beside others."""
        return LeanRun(Client(self.command(what, topic, **options)))

    def consume(self, topic: str, **options: float) -> LeanResult:
        """Run `lean consume` to its end. Raises BenchmarkFailed."""
        return parse_result(run_tool(self.command("consume", topic, **options), RUN_TIMEOUT_S))
