"""The examples of nights by themselves: what they start is a command that there is, on files that there are."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from harness.commands.main import parser
from harness.nightly.sources import read
from tests.support.brokers import ROOT

pytestmark = pytest.mark.guarantee("H7")

EXAMPLES = ROOT / "examples" / "nightly"


def workflow() -> dict[str, object]:
    loaded: dict[str, object] = yaml.safe_load((EXAMPLES / "github-workflow.yml").read_text())
    return loaded


def cron_job() -> dict[str, object]:
    documents = yaml.safe_load_all((EXAMPLES / "kubernetes-cronjob.yaml").read_text())
    (loaded,) = [one for one in documents if one["kind"] == "CronJob"]
    made: dict[str, object] = loaded
    return made


def container() -> dict[str, object]:
    spec = cron_job()["spec"]["jobTemplate"]["spec"]["template"]["spec"]  # type: ignore[index]
    (only,) = spec["containers"]
    made: dict[str, object] = only
    return made


def service() -> configparser.ConfigParser:
    read_in = configparser.ConfigParser(interpolation=None)
    read_in.optionxform = str  # type: ignore[assignment,method-assign]
    read_in.read_string((EXAMPLES / "highwater-nightly.service").read_text())
    return read_in


def commands() -> dict[str, list[str]]:
    """By example, the arguments after `highwater`."""
    steps = workflow()["jobs"]["nightly"]["steps"]  # type: ignore[index]
    (run,) = [step["run"] for step in steps if step.get("name") == "Run"]
    texts = {
        "crontab": (EXAMPLES / "crontab").read_text(),
        "service": service()["Service"]["ExecStart"],
        "workflow": run,
    }
    found = {}
    for name, text in texts.items():
        (line,) = re.findall(r"bin/highwater (nightly .*)", text)
        found[name] = shlex.split(line)
    image = re.findall(r"^(ENTRYPOINT|CMD) (\[.*\])$", (EXAMPLES / "Dockerfile").read_text(), re.MULTILINE)
    entry, default = (json.loads(text) for _, text in image)
    found["image"] = [*entry[1:], *default]
    found["cron job"] = [*entry[1:], *container()["args"]]  # type: ignore[misc]
    return found


@pytest.mark.parametrize("name", ["crontab", "service", "workflow", "image", "cron job"])
def test_what_an_example_starts_is_a_command_on_files_that_there_are(name: str) -> None:
    options = parser().parse_args(commands()[name])
    assert options.name == "nightly"
    assert options.resume
    assert [(ROOT / file).is_file() for file in options.files] == [True]


def test_matrix_of_the_example_can_be_used_whole(tmp_path: Path) -> None:
    due = read([EXAMPLES / "matrix.toml"], tmp_path)
    names = [job.name for job in due.once]
    assert len(names) == 9 * 4 + 1
    assert "append-poll-all-docker" in names
    assert {job.cell["faults"] for job in due.once} == {"all", "processes", "network", "clocks"}


@pytest.mark.parametrize("name", ["image", "cron job"])
def test_image_runs_nothing_on_nodes_that_it_cannot_make(name: str, tmp_path: Path) -> None:
    """The image has no engine of containers, and a night in which such runs fail never ends with 0."""
    options = parser().parse_args(commands()[name])
    due = read([ROOT / file for file in options.files], tmp_path, options.leave_out)
    assert {job.cell["nodes"] for job in due.once} == {"local"}


def test_matrix_of_what_is_seldom_reached_can_be_used_whole(tmp_path: Path) -> None:
    due = {job.name: job for job in read([EXAMPLES / "reach.toml"], tmp_path).once}
    assert len(due) == 13
    assert {name for name, job in due.items() if job.expect != "valid"} == {"power-unsynced"}


def test_night_has_the_time_that_its_keeper_gives_it() -> None:
    """Whoever stops a night after its time would stop it before it has written its pages."""
    spec = cron_job()["spec"]["jobTemplate"]["spec"]  # type: ignore[index]
    hours = spec["activeDeadlineSeconds"] / 3600
    assert parser().parse_args(commands()["cron job"]).minutes / 60 < hours
    job = workflow()["jobs"]["nightly"]  # type: ignore[index]
    assert parser().parse_args(commands()["workflow"]).minutes < job["timeout-minutes"]
    assert service()["Service"]["TimeoutStartSec"] == "infinity"


def test_container_may_make_namespaces_and_keeps_its_nights() -> None:
    only = container()
    assert only["securityContext"] == {"privileged": True}
    out = parser().parse_args(commands()["cron job"]).out
    assert [mount["mountPath"] for mount in only["volumeMounts"]] == [str(out)]  # type: ignore[attr-defined]


def test_image_holds_what_it_copies() -> None:
    copied = re.findall(r"^COPY (.*) \S+$", (EXAMPLES / "Dockerfile").read_text(), re.MULTILINE)
    assert all((ROOT / name).exists() for line in copied for name in line.split())


def test_what_is_sent_to_the_engine_is_what_the_image_copies() -> None:
    """A checkout holds virtual environments and nights of gigabytes, which an engine would be sent first."""
    copied = re.findall(r"^COPY (.*) \S+$", (EXAMPLES / "Dockerfile").read_text(), re.MULTILINE)
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    assert rules[1] == "*"
    assert [rule[1:] for rule in rules if rule.startswith("!")] == " ".join(copied).split()


def test_container_has_the_time_to_end_that_the_examples_of_other_keepers_give() -> None:
    """`docker stop` kills after ten seconds: a run that takes its faults back on a busy machine needs them all."""
    (run,) = re.findall(r"^#   docker (run .*)$", (EXAMPLES / "Dockerfile").read_text(), re.MULTILINE)
    grace = int(re.findall(r"--stop-timeout (\d+)", run)[0])
    spec = cron_job()["spec"]["jobTemplate"]["spec"]["template"]["spec"]  # type: ignore[index]
    assert grace == spec["terminationGracePeriodSeconds"] == 300
    assert service()["Service"]["TimeoutStopSec"] == "5min"
