"""What a run needs of a workload, and what a workload may use of the run.

A `WorkloadKind` is what a name of a run file stands for; it opens a `Workload`, which lives as long as one run. Must
not know faults, nodes or how evidence is copied; of checkers it gives names.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from harness.operations.generator import Generator
from harness.operations.history import History
from harness.operations.interpreter import Client
from harness.operations.op import Outcome
from harness.plan.plan import Plan


class WorkloadFailed(Exception):
    """The workload could not begin: the run is a crash, not a verdict. The text says what was waited for."""


class Brokers(Protocol):
    """The part of `harness.systems.base.System` that workloads use."""

    def bootstrap(self) -> Sequence[tuple[str, str, int]]:
        """(node, host, port) of every broker; broker id k is on node `nk`."""
        ...

    def start_broker(self, name: str) -> None:
        """Blocks until the node's broker responds; raises when it does not."""
        ...

    def stop_broker(self, name: str) -> str | None:
        """Stop a node's broker cleanly; the problem, for people, where it had to be killed."""
        ...


class RunContext(Protocol):
    """The part of a run that its workload uses."""

    @property
    def history(self) -> History:
        """Where operations, and the workload's other lines, are recorded."""
        ...

    def begin(self, phase: str, limit_s: float | None = None) -> None:
        """Begin a phase of the history, which is shown to people for at most limit_s. Ends the run on a signal."""
        ...

    def show(self, text: str, limit_s: float | None = None) -> None:
        """Show people what goes on; unlike `begin`, the phase stays as it is."""
        ...

    def check(self) -> None:
        """Ends the run on a signal (Ctrl-C, SIGTERM, SIGHUP)."""
        ...

    def sleep(self, seconds: float) -> None:
        """A pause; ends the run on a signal."""
        ...

    def next_process(self) -> int:
        """A process number that nobody has used, outside of the interpreter's. Safe to call from many threads."""
        ...


class ScriptedSend(NamedTuple):
    """How a script's send came out. values: the run-unique values of the records; base_offset: None when unknown."""

    outcome: Outcome
    values: tuple[int, ...]
    base_offset: int | None
    error: str | None


class ScriptSender(Protocol):
    """Sends for a script, each an operation of the history."""

    def send(self, partition: int, count: int, acks: int, node: str | None) -> ScriptedSend:
        """Send count fresh records in one request to that node, or to the partition's leader. acks: -1 is all."""
        ...


class ScriptedPoll(NamedTuple):
    """How a script's poll came out. values: of the records, in order, None where one cannot be read; hw: -1 without
    any.
    """

    outcome: Outcome
    values: tuple[int | None, ...]
    next_position: int
    hw: int
    error: str | None


class ScriptedEnd(NamedTuple):
    """How a script's request for an end of the log came out. offset: -1 without any."""

    outcome: Outcome
    offset: int
    error: str | None


class ScriptedDeletion(NamedTuple):
    """How a script's deletion came out. low_watermark: -1 without any."""

    outcome: Outcome
    low_watermark: int
    error: str | None


@runtime_checkable
class ScriptReader(Protocol):
    """A `ScriptSender` that also reads and deletes; each request is an operation of the history. node: None for the
    leader.
    """

    def poll(self, partition: int, position: int, node: str | None) -> ScriptedPoll:
        """One request for records from that position."""
        ...

    def list_offsets(self, partition: int, of: str, node: str | None) -> ScriptedEnd:
        """One request for the `latest` or the `earliest` offset."""
        ...

    def delete_records(self, partition: int, before: int, node: str | None) -> ScriptedDeletion:
        """One request that deletes what lies below that offset."""
        ...


class FinalTools(NamedTuple):
    """What the final phase uses beside the workload's own clients.

    carry_out: runs a generator to its end with the clients of the main phase, whose process numbers go on.
    collect_evidence: copies the evidence of every node, once; brokers are up, and none was restarted since the heal. Of
    a final phase that does not call this the evidence is copied after it.
    """

    carry_out: Callable[[Generator], None]
    collect_evidence: Callable[[], None]


class Workload(Protocol):
    """One workload in one run. Called by the run's main thread, where not said otherwise.

    threads: how many processes invoke operations at a time.
    """

    threads: int

    def setup(self, limit_s: float) -> None:
        """Make what the load needs, such as its topic. Raises WorkloadFailed."""
        ...

    def observers(self) -> Mapping[str, Callable[[threading.Event], None]]:
        """Name → function that runs beside the load from setup to the end, on a thread of its own, until the event is
        set.
        """
        ...

    def generator(self) -> Generator:
        """The operations of the main phase; ends with the time limit."""
        ...

    def open_client(self, process: int, thread: int) -> Client:
        """A new client for a process. Called by the thread that will use it."""
        ...

    def script_sender(self) -> ScriptSender:
        """What carries out the sends of a script, and its reads, if it is a `ScriptReader` too."""
        ...

    def final_phase(self, tools: FinalTools) -> None:
        """Called once every fault was taken back: reads and writes whatever the checkers need to judge."""
        ...

    def close(self) -> None:
        """Close connections; observers have ended."""
        ...


@runtime_checkable
class Coordinated(Protocol):
    """A workload whose clients belong to groups, or have transactional ids: faults are aimed at their coordinators."""

    def coordinated(self, kind: str) -> Collection[str]:
        """Ids of the run's groups (`group`) or transactional ids (`transaction`), as far as known. Any thread."""
        ...


@runtime_checkable
class PlanChecked(Protocol):
    """A kind of workload whose checkers depend on its options. Its `checkers` are all that any plan can have."""

    def checkers_of(self, plan: Plan) -> Sequence[str]:
        """Names of those that judge a run of this plan, which `check` has passed."""
        ...


@runtime_checkable
class Remaking(Protocol):
    """A kind of workload that deletes topics and makes them anew under their names. What is recorded of these, by
    clients and brokers, names the topic's id, too: each life of a topic is a topic of its own.
    """

    def remade_topics(self, plan: Plan) -> Sequence[str]:
        """Their names; the run's own topic is none of them."""
        ...


@runtime_checkable
class Prepared(Protocol):
    """A kind of workload whose clients are programs that the lab does not bring along."""

    def prepare(self, plan: Plan) -> Mapping[str, str]:
        """Have them at hand before anything of a run is made; blocks while they are fetched. The version of each by
        name, for the run's record. Raises PlanError that says what is missing, and how to get it.
        """
        ...


class WorkloadKind(Protocol):
    """One kind of workload.

    checkers: names of the checkers that judge what its clients saw (checkers/verdicts/catalogue.py), beside those of
    the system.
    """

    @property
    def checkers(self) -> Sequence[str]:
        """Names; docs/checkers.md has them all."""
        ...

    def check(self, plan: Plan) -> None:
        """Raises PlanError for options that this workload does not have (`plan.workload.options`)."""
        ...

    def open(self, plan: Plan, brokers: Brokers, run: RunContext) -> Workload:
        """The workload of one run. Brokers serve already."""
        ...
