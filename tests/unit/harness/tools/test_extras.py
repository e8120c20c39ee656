"""A plain install brings the lab without its packages: what is missing is named, with the command that gets it."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

from harness.commands import doctor
from harness.commands.main import main
from harness.tools import extras

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No module of the extra is there."""
    real, lab = importlib.util.find_spec, {extra.module for extra in extras.LAB}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in lab else real(name, *rest))


def test_packages_of_the_lab_are_those_of_the_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {re.match("[a-zA-Z0-9_-]+", text)[0] for text in project["optional-dependencies"]["lab"]}  # type: ignore[index]
    assert {extra.package for extra in extras.LAB} == wanted


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], ["pyspark", "rich", "psutil"]),
        (["test", "none.toml"], ["pyspark", "confluent-kafka", "docker", "paramiko"]),
        (["nightly", "none", "--seeds", "1"], ["pyspark", "junitparser", "jinja2"]),
        (["analyze", "none"], ["pyspark", "pyarrow", "rustworkx"]),
        (["report", "none"], ["jinja2"]),
        (["serve", "none"], ["jinja2", "starlette", "uvicorn"]),
    ],
    ids=lambda value: value[0] if value and isinstance(value, list) else "none",
)
@pytest.mark.usefixtures("plain")
def test_command_without_its_packages_names_them_and_what_to_type(
    capsys: pytest.CaptureFixture[str], arguments: list[str], named: list[str]
) -> None:
    assert main(arguments) == 254
    first, second = capsys.readouterr().err.splitlines()
    assert set(named) <= set(first.replace(",", "").split())
    assert second == "get them with: pip install 'highwater[lab]'"


def test_command_with_its_packages_is_not_refused() -> None:
    commands = ("test", "nightly", "analyze", "report", "serve", "doctor", "heal")
    assert [extras.refusal(command) for command in commands] == [None] * len(commands)


@pytest.mark.usefixtures("plain")
def test_doctor_names_missing_packages_and_what_they_are_for() -> None:
    row = doctor._python_packages()
    assert (row.what, row.state, row.remedy) == ("Python packages", doctor.State.MISSING, extras.INSTALL)
    assert "paramiko, " in row.detail
    assert "rich (for the live console)" in row.detail
    assert doctor._docker_nodes().state is doctor.State.MISSING


def test_doctor_without_what_no_run_needs_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "rich" else real(name))
    assert doctor._python_packages().state is doctor.State.LIMITED
