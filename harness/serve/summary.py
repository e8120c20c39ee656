"""One run as a line of the list, out of its run.json and results.json.

Pure. Decides what a run that is not judged, not finished or not readable is called. Believes nothing of what the files
say: a value of another type than it should have counts as missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

VERDICTS = ("valid", "invalid", "unknown")
UNJUDGED, UNFINISHED, ABORTED, UNREADABLE = "not judged", "not finished", "aborted", "not readable"
STATES = (*VERDICTS, UNJUDGED, UNFINISHED, ABORTED, UNREADABLE)
"""What a run may be listed as."""


@dataclass(frozen=True, slots=True)
class Summary:
    """folder, stamp: where it stands in the store. state: of STATES. started_s: seconds since 1970, None where unknown.

    seconds: from the start to the history's last line, None where unknown. found: checkers that say invalid.
    """

    folder: str
    stamp: str
    name: str
    state: str
    seed: int | None = None
    started_s: float | None = None
    seconds: float | None = None
    nodes: str = ""
    found: tuple[str, ...] = ()
    sentence: str = ""


def unreadable(folder: str, stamp: str, why: str) -> Summary:
    """A run of whose files one cannot be read."""
    return Summary(folder, stamp, folder, UNREADABLE, sentence=why)


def summary(
    folder: str,
    stamp: str,
    run: Mapping[str, object],
    results: Mapping[str, object] | None,
    history_written_s: float | None,
) -> Summary:
    """results: None where there are none. history_written_s: when the history was last written, seconds since 1970."""
    started_ns = _int(run.get("started_wall_ns"))
    started_s = None if started_ns is None or not 0 <= started_ns < 1 << 62 else started_ns / 1e9
    seconds = None
    if started_s is not None and history_written_s is not None and history_written_s >= started_s:
        seconds = history_written_s - started_s
    state, sentence = _state(run, results)
    return Summary(
        folder=folder,
        stamp=stamp,
        name=_text(run.get("name")) or folder,
        state=state,
        seed=_int(run.get("seed")),
        started_s=started_s,
        seconds=seconds,
        nodes=_nodes(run),
        found=invalid_checkers(results or {}),
        sentence=sentence,
    )


def verdicts_of(results: Mapping[str, object]) -> dict[str, str]:
    """Checker → its verdict, of the checkers that have one."""
    checkers = results.get("checkers")
    if not isinstance(checkers, dict):
        return {}
    return {
        str(name): verdict
        for name, said in checkers.items()
        if isinstance(said, dict) and isinstance(verdict := said.get("verdict"), str)
    }


def invalid_checkers(results: Mapping[str, object]) -> tuple[str, ...]:
    """Checkers that say invalid, by name."""
    return tuple(sorted(name for name, verdict in verdicts_of(results).items() if verdict == "invalid"))


def _state(run: Mapping[str, object], results: Mapping[str, object] | None) -> tuple[str, str]:
    if results is not None:
        verdict = results.get("verdict")
        if isinstance(verdict, str) and verdict in VERDICTS:
            return verdict, _text(results.get("sentence"))
        return UNREADABLE, "results.json names no verdict"
    aborted = run.get("aborted")
    if aborted:
        return ABORTED, _text(aborted)
    if run.get("finished") is True:
        return UNJUDGED, "Recorded to its end; no results.json."
    return UNFINISHED, "The run goes on, or its harness died."


def _nodes(run: Mapping[str, object]) -> str:
    nodes = run.get("nodes")
    rows = [node for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else []
    brokers = sum(1 for node in rows if node.get("role") == "broker")
    kind = _text(run.get("node_kind"))
    return f"{brokers} {kind}".strip() if brokers else kind


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
