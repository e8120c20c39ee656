"""Run the tests of everything, or of one room of the code.

    python -m tools.suite [--room ROOM] [--list] [options of pytest]

tests/rooms.toml says which tests belong to which room, and in which of four parts they run: those that compute two at
a time, then those of other people's clients, two at a time as well, then those that wait, three at a time, then the
others one by one. A part runs also where one before it failed. The exit code is pytest's, of the first part that
failed.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path("tests")
TABLE = TESTS / "rooms.toml"
NO_TESTS_COLLECTED = 5
"""pytest's exit code where -k, or a mark, matched nothing."""
AT_ONCE = (2, 2, 3)
"""Processes for the tests that compute, those of clients, and those that wait, on two cores."""
_ORDERED = ("-p", "tools.processes", "--no-loadscope-reorder")


class UnknownRoom(Exception):
    """No room of this name; the text names those that there are."""


@dataclass(frozen=True)
class Suite:
    """computing, clients, waiting: what runs some at a time, in three parts; alone: what of these runs one by one after
    all, with all that none of them names. first: what begins before the others of its part, in this order.
    one_process: folders whose tests share a process. rooms: room → its tests beside tests/unit/<room>.
    Paths are below tests/.
    """

    computing: tuple[str, ...]
    waiting: tuple[str, ...]
    alone: tuple[str, ...]
    clients: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    one_process: tuple[str, ...] = ()
    rooms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def together(self) -> tuple[str, ...]:
        return (*self.computing, *self.clients, *self.waiting)

    def of_room(self, room: str) -> list[str]:
        """Paths of the tests of one room, the unit tests first."""
        if room not in self.rooms:
            raise UnknownRoom(f"no room {room!r}; the rooms are: {', '.join(sorted(self.rooms))}")
        own = f"unit/{room}"
        return [own, *self.rooms[room]] if (TESTS / own).is_dir() else [*self.rooms[room]]

    def parts(self, paths: Sequence[str]) -> list[Part]:
        """What runs of these paths in each part: computing, clients, waiting, one by one."""
        shared = [self._shared(listed, paths) for listed in (self.computing, self.clients, self.waiting)]
        whole = [path for path in paths if not is_within(path, self.together) or is_within(path, self.alone)]
        within = [path for path in self.alone if any(is_within(path, part.paths) for part in shared)]
        return [*shared, Part((*whole, *within), tuple(path for path in self.together if is_below(path, whole)))]

    def _shared(self, listed: Sequence[str], paths: Sequence[str]) -> Part:
        whole = [path for path in paths if is_within(path, listed) and not is_within(path, self.alone)]
        run = [*whole, *(place for place in listed if is_below(place, paths))]
        return Part(tuple(run), tuple(path for path in self.alone if is_below(path, run)))


@dataclass(frozen=True)
class Part:
    """Paths of tests, and what below them is left out."""

    paths: tuple[str, ...]
    spared: tuple[str, ...]


def is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path.startswith(f"{folder}/") for folder in folders)


def is_within(path: str, folders: Sequence[str]) -> bool:
    """Whether the path is one of these, or below one of them."""
    return path in folders or is_below(path, folders)


def load(table: Path = TABLE) -> Suite:
    read = tomllib.loads(table.read_text(encoding="utf-8"))
    rooms = {room: tuple(paths) for room, paths in read.pop("rooms").items()}
    return Suite(**{name: tuple(paths) for name, paths in read.items()}, rooms=rooms)


def everything(suite: Suite) -> list[str]:
    """All folders of tests: those named in the table, and beside them whatever else there is."""
    found: list[str] = []
    for folder in sorted(path for path in TESTS.iterdir() if path.is_dir()):
        deeper = any(other.startswith(f"{folder.name}/") for other in suite.together)
        inside = sorted(folder.iterdir()) if deeper else [folder]
        found += [str(path.relative_to(TESTS)) for path in inside if holds_tests(path)]
    return found


def holds_tests(path: Path) -> bool:
    if path.is_dir():
        return any(path.rglob("test_*.py"))
    return path.name.startswith("test_") and path.suffix == ".py"


def exit_code(codes: Sequence[int]) -> int:
    """Of all parts: the first failure; that nothing was collected counts only where no part has tests."""
    failed = [code for code in codes if code not in (0, NO_TESTS_COLLECTED)]
    if failed:
        return failed[0]
    return 0 if 0 in codes else NO_TESTS_COLLECTED


def commands(suite: Suite, paths: Sequence[str], options: Sequence[str]) -> list[list[str]]:
    """The calls of pytest, one for each part that has tests."""
    *shared, single = suite.parts(paths)
    made = [
        _call(part, ["-n", str(at_once), *_ORDERED, "--durations=10", *options])
        for part, at_once in zip(shared, AT_ONCE, strict=True)
        if part.paths
    ]
    if single.paths:
        made.append(_call(single, ["--durations=25", *options]))
    return made


def _call(part: Part, options: Sequence[str]) -> list[str]:
    spared = [f"--ignore={TESTS / path}" for path in part.spared]
    return [
        sys.executable,
        "-m",
        "pytest",
        "-m",
        "not nightly",
        *options,
        *spared,
        *(str(TESTS / p) for p in part.paths),
    ]


def main(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(prog="python -m tools.suite", description="Run the tests of everything, or of one room.")
    parser.add_argument("--room", default="", help="a room of the code, as broker/log; tests/rooms.toml names them")
    parser.add_argument("--list", action="store_true", help="print the calls of pytest and make none")
    known, options = parser.parse_known_args(arguments)
    suite = load()
    try:
        paths = suite.of_room(known.room) if known.room else everything(suite)
    except UnknownRoom as error:
        print(error, file=sys.stderr)
        return 2
    made = commands(suite, paths, options)
    if known.list:
        print("\n".join(" ".join(command) for command in made))
        return 0
    return exit_code([subprocess.run(command, check=False).returncode for command in made])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
