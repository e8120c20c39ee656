"""Which tests `make test` and `make test ROOM=…` run: every file once, some at a time where the table allows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import suite as subject
from tools.suite import NO_TESTS_COLLECTED, Part, Suite, UnknownRoom, commands, everything, exit_code, is_within, load

ROOT = Path(__file__).resolve().parents[3]
KINDS_OF_ROOMS = ("integration", "interop", "property")


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture
def suite() -> Suite:
    return load()


def files_below(paths: list[str]) -> list[str]:
    """Test files, below tests/, that pytest finds where it is given these paths."""
    found: list[Path] = []
    for path in (ROOT / "tests" / path for path in paths):
        found += path.rglob("test_*.py") if path.is_dir() else [path]
    return [str(path.relative_to(ROOT / "tests")) for path in found]


def run_by(part: Part) -> list[str]:
    return [file for file in files_below([*part.paths]) if not is_within(file, part.spared)]


def test_whole_suite_runs_every_file_once(suite: Suite) -> None:
    run = [file for part in suite.parts(everything(suite)) for file in run_by(part)]
    assert sorted(run) == sorted(files_below(["."]))


def test_each_part_of_the_whole_suite_runs_what_the_table_says(suite: Suite) -> None:
    computing, clients, waiting, single = suite.parts(everything(suite))
    for part, listed in ((computing, suite.computing), (clients, suite.clients), (waiting, suite.waiting)):
        assert [file for file in run_by(part) if not is_within(file, listed) or is_within(file, suite.alone)] == []
    files = run_by(single)
    assert [file for file in files if is_within(file, suite.together) and not is_within(file, suite.alone)] == []


def test_paths_of_the_table_exist(suite: Suite) -> None:
    lists = (suite.together, suite.alone, suite.first, suite.one_process, *suite.rooms.values())
    named = {path for paths in lists for path in paths}
    assert [path for path in sorted(named) if not (ROOT / "tests" / path).exists()] == []


def test_what_begins_first_is_of_a_part_that_runs_some_at_a_time(suite: Suite) -> None:
    assert [path for path in suite.first if not is_within(path, suite.together) or is_within(path, suite.alone)] == []


def test_rooms_are_rooms_of_the_code(suite: Suite) -> None:
    assert [room for room in suite.rooms if not (ROOT / room).is_dir()] == []


def test_every_test_beside_the_unit_tests_belongs_to_a_room(suite: Suite) -> None:
    named = [path for paths in suite.rooms.values() for path in paths]
    files = files_below([*KINDS_OF_ROOMS, "golden", "mutants", "scenarios"])
    assert [file for file in files if not is_within(file, named)] == []


def test_every_folder_of_unit_tests_is_within_a_room(suite: Suite) -> None:
    folders = {str(Path(file).parent) for file in files_below(["unit"])}
    own = [f"unit/{room}" for room in suite.rooms]
    assert [folder for folder in sorted(folders - {"unit", "unit/broker"}) if not is_within(folder, own)] == []


def test_room_runs_its_own_unit_tests_and_those_beside_them(suite: Suite) -> None:
    paths = suite.of_room("broker/zk")
    assert paths == ["unit/broker/zk", "integration/zk"]
    two, one = commands(suite, paths, ["-q"])
    assert two[-1] == "tests/unit/broker/zk"
    assert "-n" in two
    assert one[-2:] == ["-q", "tests/integration/zk"]
    assert "-n" not in one


@pytest.mark.parametrize("room", ["broker/runtime/metadata", "harness/runs", "nemesis"])
def test_room_runs_every_file_that_belongs_to_it_once(suite: Suite, room: str) -> None:
    paths = suite.of_room(room)
    run = [file for part in suite.parts(paths) for file in run_by(part)]
    assert sorted(run) == sorted(files_below(paths))


def test_unknown_room_is_an_error_that_names_the_rooms(
    suite: Suite, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnknownRoom):
        suite.of_room("broker/lodge")
    monkeypatch.setattr(subject, "commands", lambda *_: pytest.fail("no tests of an unknown room"))
    assert subject.main(["--room", "broker/lodge"]) == 2
    said = capsys.readouterr().err
    assert "broker/lodge" in said
    assert all(room in said for room in suite.rooms)


def test_what_waits_and_what_has_clients_run_some_at_a_time_apart_from_what_computes() -> None:
    suite = Suite(("log",), ("broker",), (), clients=("interop",))
    made = commands(suite, ["broker", "interop", "log"], [])
    assert [command[-1] for command in made] == ["tests/log", "tests/interop", "tests/broker"]
    assert [command[command.index("-n") + 1] for command in made] == ["2", "2", "3"]


def test_tests_that_go_by_the_clock_are_left_out_of_the_others_and_run_alone() -> None:
    suite = Suite(("log",), (), ("log/test_pace.py",))
    two, one = commands(suite, ["log", "net"], [])
    assert "--ignore=tests/log/test_pace.py" in two
    assert one[-2:] == ["tests/net", "tests/log/test_pace.py"]
    assert "-n" not in one


def test_files_that_run_two_at_a_time_are_left_out_of_their_folder_which_does_not() -> None:
    suite = Suite((), ("harness/test_runs.py",), ())
    two, one = commands(suite, ["harness"], [])
    assert two[-1] == "tests/harness/test_runs.py"
    assert one[-2:] == ["--ignore=tests/harness/test_runs.py", "tests/harness"]


def test_single_file_of_a_folder_runs_as_the_table_says_of_the_file() -> None:
    suite = Suite((), ("broker",), ("broker/test_pace.py",))
    (one,) = commands(suite, ["broker/test_pace.py"], [])
    assert "-n" not in one
    (two,) = commands(suite, ["broker/test_kills.py"], [])
    assert "-n" in two


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ([0, 0], 0),
        ([1, 0], 1),
        ([0, 3], 3),
        ([NO_TESTS_COLLECTED, 0], 0),
        ([0, NO_TESTS_COLLECTED], 0),
        ([NO_TESTS_COLLECTED, 1], 1),
        ([NO_TESTS_COLLECTED, NO_TESTS_COLLECTED], NO_TESTS_COLLECTED),
    ],
)
def test_exit_code_is_that_of_the_part_that_failed(codes: list[int], code: int) -> None:
    assert exit_code(codes) == code
