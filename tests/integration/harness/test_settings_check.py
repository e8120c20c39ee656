"""A run file's settings are the broker's own matter: it is asked before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.commands import main as cli
from harness.plan.toml_source import PlanError
from harness.runs import run
from harness.runs.run_files import load
from tests.support.brokers import ROOT

RUN = """name = "a"
[system.settings]
"min.insync.replicas" = 2
{settings}
[topic]
name = "t"
[topic.config]
"retention.ms" = 1000
{config}
[system.broker.2]
"broker.rack" = "r"
{broker}
"""


def check(folder: Path, *, settings: str = "", config: str = "", broker: str = "") -> None:
    path = folder / "run.toml"
    path.write_text(RUN.format(settings=settings, config=config, broker=broker))
    run.check(load(path))


def test_sound_settings_pass(tmp_path: Path) -> None:
    check(tmp_path, settings='"replica.lag.time.max.ms" = 3000', config='"cleanup.policy" = "compact"')


@pytest.mark.parametrize(
    ("table", "text", "said"),
    [
        (
            "settings",
            '"replica.lag.time.max" = 3000',
            r"run.toml:4: system.settings.replica.lag.time.max: '3000': no setting of a broker "
            r"\(did you mean replica.lag.time.max.ms\?\)",
        ),
        (
            "settings",
            "replica.lag.time.max.ms = '3s'",
            "run.toml:4: system.settings.replica.lag.time.max.ms: '3s': Invalid value 3s for configuration",
        ),
        ("config", '"retention" = 1', r"run.toml:9: topic.config.retention: '1': no setting of a topic"),
        ("config", '"segment.bytes" = 1', "run.toml:9: topic.config.segment.bytes: '1': Invalid value 1 for"),
        ("broker", '"min.insync.replica" = 1', r"run.toml:12: system.broker.2.min.insync.replica: '1': no setting"),
        (
            "settings",
            '"group.min.session.timeout.ms" = 9\n"group.max.session.timeout.ms" = 8',
            "run.toml:2: system.settings: group.min.session.timeout.ms=9 is above",
        ),
    ],
)
def test_wrong_setting_is_refused_with_its_line(tmp_path: Path, table: str, text: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        check(tmp_path, **{table: text})


def test_wrong_setting_is_usage_and_makes_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.toml"
    path.write_text(RUN.format(settings='"acks" = "all"', config="", broker=""))
    assert cli.main(["test", str(path), "--store", str(tmp_path / "store")]) == 254
    assert "run.toml:4: system.settings.acks: 'all': no setting of a broker" in capsys.readouterr().err
    assert not (tmp_path / "store").exists()


def test_source_that_cannot_be_asked_is_not_asked(tmp_path: Path) -> None:
    """A version from before the question."""
    source = tmp_path / "old"
    (source / "broker").mkdir(parents=True)
    (source / "broker" / "cli.py").touch()
    path = tmp_path / "run.toml"
    path.write_text(f'name = "a"\n[system]\nsource = "{source}"\n[system.settings]\nx = 1\n[topic]\nname = "t"\n')
    run.check(load(path))


def test_source_whose_check_fails_is_named(tmp_path: Path) -> None:
    source = tmp_path / "broken"
    (source / "broker" / "config").mkdir(parents=True)
    for name in ("__init__.py", "cli.py", "config/__init__.py"):
        (source / "broker" / name).touch()
    (source / "broker" / "config" / "check.py").write_text("raise SystemExit('broken')\n")
    path = tmp_path / "run.toml"
    path.write_text(f'name = "a"\n[system]\nsource = "{source}"\n[topic]\nname = "t"\n')
    with pytest.raises(PlanError, match=r"its check of settings ended with 1: broken"):
        run.check(load(path))


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "runs").glob("*.toml")), ids=lambda path: path.stem)
def test_settings_of_every_example_are_known(path: Path) -> None:
    if not path.name.endswith(".expect.toml"):
        run.check(load(path))
