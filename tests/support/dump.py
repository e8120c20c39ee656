"""`highwater-dump-log` as a user calls it, and its lines as fields."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from broker.dump import cli

_FIELD = re.compile(r"(?:^\|? ?|(?<= ))([A-Za-z]+): (\S*)")


class Dumped(NamedTuple):
    """An exit code and the lines of both outputs."""

    code: int
    out: list[str]
    err: list[str]

    @property
    def batches(self) -> list[dict[str, str]]:
        """Fields of the batch lines."""
        return [fields(line) for line in self.out if line.startswith("baseOffset: ")]

    @property
    def records(self) -> list[dict[str, str]]:
        """Fields of the record lines."""
        return [fields(line) for line in self.out if line.startswith("| ")]


def dump(files: Path | Iterable[Path], *options: str) -> Dumped:
    names = [files] if isinstance(files, Path) else files
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(["--files", ",".join(map(str, names)), *options])
    return Dumped(code, out.getvalue().splitlines(), err.getvalue().splitlines())


def fields(line: str) -> dict[str, str]:
    """`name: value` pairs, as a script would take a line apart."""
    return dict(_FIELD.findall(line))


def segment_files(home: Path, *suffixes: str) -> list[Path]:
    """Files of a partition's folder with these suffixes, or all of a segment, by name."""
    wanted = suffixes or (".log", ".index", ".timeindex", ".snapshot")
    return sorted(file for file in home.iterdir() if file.suffix in wanted)
