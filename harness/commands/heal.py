"""`highwater heal`: remove what dead runs left behind.

Decides: for each manifest whose owner is dead, what is removed: containers and networks, daemons, firewall rules and
folders on hosts, local folders, what a judge beside the run (`--online`) kept. Must not know: faults. What lived in a
sandbox was removed by the kernel, which is verified. Invariants: a live run is never touched; a manifest is removed
last, and only when nothing of its run is left.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.nodes.manifest import forget_unfinished, manifests, owner_alive
from harness.nodes.sandbox import start_ticks
from harness.runs.store import RunStore

# The kernel ends the processes of a dead run one after the other: one that is ending has its folder until its very end.
ENDING_S = 5.0
_LOOK_EVERY_S = 0.05


@dataclass(slots=True)
class Report:
    """What was done and what could not be. `left`: what is still there, and why."""

    alive: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def heal() -> Report:
    """Remove what dead runs left; errors are collected in the report, and every run is tried."""
    report = Report()
    forget_unfinished()
    for file, content in manifests():
        name = f"{content['id']} ({content['run_dir']})"
        if owner_alive(content):
            report.alive.append(name)
            continue
        before = len(report.left)
        _heal_run(content, report)
        if len(report.left) == before:
            file.unlink(missing_ok=True)
            report.done.append(f"run {name}: nothing is left")
    return report


def main() -> int:
    """Print what heal did. Exit code 0 when nothing is left of any dead run, 1 otherwise."""
    report = heal()
    for name in report.alive:
        print(f"running, not touched: {name}")
    for text in report.done:
        print(text)
    for text in report.left:
        print(f"LEFT: {text}")
    if not report.done and not report.left:
        print("Nothing to heal.")
    return 1 if report.left else 0


def _heal_run(content: Mapping[str, Any], report: Report) -> None:
    steps = (
        _remove_containers,
        _remove_engine_data,
        _clean_hosts,
        _verify_no_processes,
        _remove_folders,
        _remove_online,
    )
    for step in steps:
        try:
            step(content, report)
        except Exception as error:  # what fails must not keep the rest from being cleaned
            what = step.__name__.strip("_").replace("_", " ")
            report.left.append(f"{what} of {content['id']}: {error}")


def _remove_containers(content: Mapping[str, Any], report: Report) -> None:
    label = content.get("label")
    if label is None:
        return
    from harness.nodes.docker_engine import connect
    from harness.nodes.docker_nodes import remove_labelled

    client = connect()
    if client is None:
        raise RuntimeError(f"the Docker engine does not respond; containers labelled {label} may be left")
    try:
        report.done += [f"removed {name}" for name in remove_labelled(client, label)]
    finally:
        client.close()


def _remove_engine_data(content: Mapping[str, Any], report: Report) -> None:
    folder = content.get("engine_folder")
    if folder is None:
        return
    from harness.nodes.docker_engine import remove_data

    # A live run that took the folder over removed the dead run's containers when it started.
    if Path(folder, "data").exists() and remove_data(Path(folder)):
        report.done.append(f"removed the engine's data in {folder}")


def _clean_hosts(content: Mapping[str, Any], report: Report) -> None:
    from harness.nodes.ssh import SshHost, SshNode
    from harness.nodes.ssh_set import clean

    for entry in content.get("hosts", []):
        details = dict(entry)
        root = details.pop("root")
        node = SshNode(SshHost(**details), root)
        try:
            node.connect()
            if node.exists(root):
                clean(node)
                report.done.append(f"cleaned {node.name} at {node.host.host}: daemons, firewall rules, {root}")
        except Exception as error:  # the other hosts are cleaned all the same
            report.left.append(f"node {node.name} of {content['id']}: {error}")
        finally:
            node.disconnect()


def _verify_no_processes(content: Mapping[str, Any], report: Report) -> None:
    """No process of the machine may still have one of the run's folders as its own; those that end have a moment."""
    folders = [Path(folder) for folder in content["folders"]]
    for pid, began in _those_that_stay(lambda: _processes_in(folders)):
        report.left.append(f"process {pid} (started at tick {began}) of {content['id']} is alive")


def _those_that_stay(look: Callable[[], list[tuple[str, int]]]) -> list[tuple[str, int]]:
    """(pid, start in ticks since boot) of what is still seen once it has had a moment to end."""
    deadline = time.monotonic() + ENDING_S
    while (left := look()) and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
    return left


def _processes_in(folders: Sequence[Path]) -> list[tuple[str, int]]:
    """(pid, start in ticks since boot) of every process whose working folder or root is in one of the folders."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            places = [Path(os.readlink(entry / link)) for link in ("cwd", "root")]
            began = start_ticks(entry.name)
        except OSError:
            continue
        if any(place.is_relative_to(folder) for place in places for folder in folders):
            found.append((entry.name, began))
    return found


def _remove_folders(content: Mapping[str, Any], report: Report) -> None:
    for folder in map(Path, content["folders"]):
        if folder.exists():
            shutil.rmtree(folder)
            report.done.append(f"removed {folder}")


def _remove_online(content: Mapping[str, Any], report: Report) -> None:
    """What the judge of a run that went on has written: of another process, which ends with who asked it."""
    folder = RunStore(Path(content["run_dir"])).online
    if not folder.exists():
        return
    left = _those_that_stay(lambda: _processes_with(folder))
    for pid, began in left:
        report.left.append(f"process {pid} (started at tick {began}), which writes to {folder}, is alive")
    if not left:
        shutil.rmtree(folder)
        report.done.append(f"removed {folder}")


def _processes_with(folder: Path) -> list[tuple[str, int]]:
    """(pid, start in ticks since boot) of every process with that folder, or what is in it, on its command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            began = start_ticks(entry.name)
        except OSError:
            continue
        if any(Path(os.fsdecode(argument)).is_relative_to(folder) for argument in arguments):
            found.append((entry.name, began))
    return found


if __name__ == "__main__":
    raise SystemExit(main())
