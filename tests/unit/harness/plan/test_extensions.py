"""Names of workloads and systems: own ones, those of entry points, and errors that say which package is at fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkers.verdicts.catalogue import BY_NAME
from harness.plan.extensions import SYSTEMS, WORKLOADS, Extensions
from harness.plan.run_file import parse_plan, render
from harness.plan.toml_source import PlanError
from harness.systems import system_kind
from harness.workloads import checkers_of, workload_kind
from tests.support.entry_points import install


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_extension_of_a_package_is_known_beside_the_own_ones(outside: Path) -> None:
    install(outside, "toys", "spinner = collections:Counter")
    toys = Extensions("toys", {"own": "collections:OrderedDict"})
    assert toys.names() == ("own", "spinner")
    assert [cls.__name__ for cls in (toys.load("own"), toys.load("spinner")) if isinstance(cls, type)] == [
        "OrderedDict",
        "Counter",
    ]


def test_extension_that_nobody_has_is_refused_with_the_names_that_there_are() -> None:
    with pytest.raises(PlanError, match=r"'queue' is not one of append-poll,.* \(entry point group highwater\."):
        WORKLOADS.load("queue")


@pytest.mark.parametrize("target", ["no_such_module:Toy", "collections:Toy"])
def test_extension_that_cannot_be_imported_names_its_package(outside: Path, target: str) -> None:
    install(outside, "toys", f"broken = {target}")
    with pytest.raises(PlanError, match=f"'broken' in entry point group toys: {target} of toy: "):
        Extensions("toys", {}).load("broken")


def test_extension_that_two_packages_offer_is_refused(outside: Path) -> None:
    install(outside, "toys", "one = collections:Counter")
    install(outside, "toys", "one = collections:deque", package="other")
    with pytest.raises(PlanError, match="uninstall all but one"):
        Extensions("toys", {}).load("one")


def test_extension_of_a_package_never_takes_the_place_of_an_own_one(outside: Path) -> None:
    install(outside, "toys", "own = collections:Counter")
    toys = Extensions("toys", {"own": "collections:OrderedDict"})
    assert (toys.names(), getattr(toys.load("own"), "__name__", None)) == (("own",), "OrderedDict")


@pytest.mark.parametrize(("section", "known"), [("workload", "append-poll"), ("system", "highwater")])
def test_run_file_with_an_unknown_kind_is_refused_with_its_line_and_the_known_ones(section: str, known: str) -> None:
    with pytest.raises(PlanError, match=rf"x.toml:3: {section}.kind: 'toy' is not .*{known}"):
        parse_plan("x.toml", f'name = "x"\n[{section}]\nkind = "toy"\n')


def test_every_own_name_stands_for_an_implementation() -> None:
    for name in WORKLOADS.own:
        assert workload_kind(name).checkers
    for name in SYSTEMS.own:
        assert system_kind(name).checkers


def test_own_workload_and_system_name_every_checker_that_there_is() -> None:
    asked = [*checkers_of(parse_plan("x.toml", 'name = "x"\n')), *system_kind("highwater").checkers]
    copied_files = ["log-start"]
    assert sorted(asked) == sorted([*copied_files, *(name for name, spec in BY_NAME.items() if not spec.own)])


def test_workload_of_producers_names_their_checkers_beside_append_polls() -> None:
    asked = set(workload_kind("idempotent").checkers) - set(workload_kind("append-poll").checkers)
    assert asked == {"resend-offset", "producer-order", "producer-sequence"}


def test_every_checker_is_asked_for_by_some_workload_or_system() -> None:
    asked = {name for kind in WORKLOADS.own for name in workload_kind(kind).checkers}
    asked |= {name for kind in SYSTEMS.own for name in system_kind(kind).checkers}
    assert asked == BY_NAME.keys()


def test_option_of_another_workload_is_refused_with_its_line() -> None:
    text = 'name = "x"\nseed = 1\n[workload]\nrate = 1.0\n[workload.options]\nspeed = 3\n'
    plan = parse_plan("x.toml", text)
    assert parse_plan("again.toml", render(plan)) == plan
    with pytest.raises(PlanError, match=r"x.toml:6: workload.options.speed: append-poll has no options"):
        workload_kind("append-poll").check(plan)
