"""librdkafka's C API as a client: benchmarks/librdkafka/rdk.c, built against the installed librdkafka.

It makes every record, as an application's producer does: on few cores it measures itself along with the broker.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.clients.compile import compile_c
from benchmarks.clients.lean import RUN_TIMEOUT_S, LeanResult, parse_result
from benchmarks.process import run_tool

SOURCES = Path(__file__).resolve().parents[1] / "librdkafka"


class RdKafka:
    """Runs the program against one cluster's topic; it is compiled at the first use."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def run(self, what: str, topic: str, **options: int | str) -> LeanResult:
        """`rdk produce` or `rdk consume` to its end; latencies and requests are not counted. Raises BenchmarkFailed."""
        program = compile_c("rdk", SOURCES, "apt-get install -y build-essential librdkafka-dev", "-lrdkafka")
        arguments = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", str(value))]
        argv = [str(program), what, "--bootstrap", self._bootstrap, "--topic", topic, *arguments]
        return parse_result(run_tool(argv, RUN_TIMEOUT_S))
