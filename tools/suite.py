"""Run the tests of everything, or of one room of the code.

    python -m tools.suite [--room ROOM] [--list] [options of pytest]

tests/rooms.toml says which tests belong to which room, and which run two at a time. Those come first, the others after
them one by one; the second part also runs where the first failed. The exit code is pytest's, of the part that failed.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TESTS = Path("tests")
TABLE = TESTS / "rooms.toml"
NO_TESTS_COLLECTED = 5
"""pytest's exit code where -k, or a mark, matched nothing."""


class UnknownRoom(Exception):
    """No room of this name; the text names those that there are."""


@dataclass(frozen=True)
class Suite:
    """rooms: room → its tests beside tests/unit/<room>. Paths are below tests/."""

    together: tuple[str, ...]
    alone: tuple[str, ...]
    rooms: dict[str, tuple[str, ...]]

    def of_room(self, room: str) -> list[str]:
        """Paths of the tests of one room, the unit tests first."""
        if room not in self.rooms:
            raise UnknownRoom(f"no room {room!r}; the rooms are: {', '.join(sorted(self.rooms))}")
        own = f"unit/{room}"
        return [own, *self.rooms[room]] if (TESTS / own).is_dir() else [*self.rooms[room]]

    def parts(self, paths: Sequence[str]) -> tuple[list[str], list[str]]:
        """(paths of tests that run two at a time, those that run one by one)"""
        pairs = [path for path in paths if is_within(path, self.together) and not is_within(path, self.alone)]
        single = [path for path in paths if path not in pairs]
        single += [path for path in self.alone if is_within(path, pairs)]
        return pairs, single


def is_within(path: str, folders: Sequence[str]) -> bool:
    """Whether the path is one of these, or below one of them."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def load(table: Path = TABLE) -> Suite:
    read = tomllib.loads(table.read_text(encoding="utf-8"))
    rooms = {room: tuple(paths) for room, paths in read["rooms"].items()}
    return Suite(tuple(read["together"]), tuple(read["alone"]), rooms)


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
    """Of both parts: the first failure; that nothing was collected counts only where no part has tests."""
    failed = [code for code in codes if code not in (0, NO_TESTS_COLLECTED)]
    if failed:
        return failed[0]
    return 0 if 0 in codes else NO_TESTS_COLLECTED


def commands(suite: Suite, paths: Sequence[str], options: Sequence[str]) -> list[list[str]]:
    """The calls of pytest, one for each part that has tests."""
    pytest = [sys.executable, "-m", "pytest", "-m", "not nightly"]
    pairs, single = suite.parts(paths)
    made: list[list[str]] = []
    if pairs:
        spared = [f"--ignore={TESTS / path}" for path in suite.alone if is_within(path, pairs)]
        # In the order of their names, so that unit tests come last: each is quick, and both processes end together.
        two = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "--durations=10"]
        made.append([*pytest, *two, *options, *spared, *(str(TESTS / path) for path in pairs)])
    if single:
        made.append([*pytest, "--durations=25", *options, *(str(TESTS / path) for path in single)])
    return made


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
