"""Kafka's command line tools, run to their end against a cluster."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.brokers import Cluster

TOOL_S = 120


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of one version of Kafka."""

    classpath: str
    cluster: Cluster

    def run(self, main: str, *options: str, code: int = 0, text: str | None = None) -> str:
        """What the tool printed; where it is to fail, with its stderr. text: on its stdin."""
        command = self.command(main, "--bootstrap-server", self.cluster.bootstrap, *options)
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_S, input=text)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stdout + done.stderr

    def command(self, main: str, *options: str) -> list[str]:
        return ["java", "-Xmx256M", "-XX:TieredStopAtLevel=1", "-cp", self.classpath, main, *options]


def table(printed: str, first: str) -> list[dict[str, str]]:
    """The lines of a table that a tool printed, by the names of its columns. first: the name of the first column."""
    lines = [line.split() for line in printed.splitlines() if line.strip()]
    start = next(number for number, words in enumerate(lines) if words[0] == first)
    names = lines[start]
    return [dict(zip(names, words, strict=False)) for words in lines[start + 1 :] if len(words) <= len(names)]


def named(rows: Sequence[dict[str, str]], column: str, value: str) -> dict[str, str]:
    """The one row that has this value."""
    [found] = [row for row in rows if row[column] == value]
    return found
