"""wide as a name of run files, and its parts in one run.

Decides its options, which parts of append-poll it has, and which checkers judge it. Must not know what a part does.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

from harness.operations.generator import Generator
from harness.operations.interpreter import Client
from harness.plan.fault_kinds import DAMAGES_FILES
from harness.plan.plan import Plan
from harness.plan.toml_source import PlanError
from harness.workloads.append_poll.workload import CHECKERS as APPEND_POLL
from harness.workloads.append_poll.workload import AppendPollRun
from harness.workloads.base import Brokers, RunContext
from harness.workloads.idempotent.client import IdempotentClient, Identities
from harness.workloads.idempotent.workload import OF_PRODUCERS
from harness.workloads.wide.client import WideClient
from harness.workloads.wide.generators import all_threads, load, plain_threads
from harness.workloads.wide.options import options_of

ACKS_ALL = -1
OF_DELETIONS = ("deleted-records",)
OF_LOOKUPS = ("wrong-lookup",)
OF_FOLLOWERS = ("follower-went-back",)
SELECTOR, RACK_AWARE = "replica.selector.class", "org.apache.kafka.common.replica.RackAwareReplicaSelector"
UNCLEAN = "unclean.leader.election.enable"
BESIDE = 500_000_000
"""Process numbers from here on are of operations that shared another one's request."""


class Wide:
    """Implements `harness.workloads.base.WorkloadKind`."""

    checkers = (*APPEND_POLL, *OF_DELETIONS, *OF_LOOKUPS, *OF_FOLLOWERS, *OF_PRODUCERS)

    def checkers_of(self, plan: Plan) -> Sequence[str]:
        """Without those that judge what this plan's clients never do."""
        options = options_of(plan)
        return (
            *APPEND_POLL,
            *(OF_DELETIONS if options.deletions else ()),
            *(OF_LOOKUPS if options.lookups else ()),
            *(OF_FOLLOWERS if options.follower_reads else ()),
            *(OF_PRODUCERS if options.idempotent else ()),
        )

    def check(self, plan: Plan) -> None:
        """Raises PlanError for options that there are not, for settings that an option cannot be judged with, and for
        what leaves acknowledged records without another copy while files are damaged.
        """
        options = options_of(plan)
        if plan.script:
            raise PlanError("script: the workload wide has a load of its own; scripts are append-poll's")
        self._check_deletions(plan, options.deletions)
        if options.follower_reads:
            self._check_followers(plan)
        if options.idempotent and plan.workload.acks != ACKS_ALL:
            where = f"{plan.workload.options_where['idempotent']}: workload.options.idempotent"
            raise PlanError(f"{where}: these producers need acks all; workload.acks is {plan.workload.acks}")
        if not options.acks_one:
            return
        where = f"{plan.workload.options_where['acks_one']}: workload.options.acks_one"
        if plan.workload.acks != ACKS_ALL:
            raise PlanError(f"{where}: is a share of sends with acks all; workload.acks is {plan.workload.acks}")
        for kind in plan.fault_kinds:
            if DAMAGES_FILES in kind.effects:
                raise PlanError(
                    f"{where}: {kind.name} may hurt the only copy of what acks=1 acknowledged; leave one of them out"
                )

    @staticmethod
    def _check_deletions(plan: Plan, deletions: float) -> None:
        policy = plan.topic.config.get("cleanup.policy", "delete")
        if deletions and "delete" not in policy:
            where = f"{plan.workload.options_where['deletions']}: workload.options.deletions"
            raise PlanError(f"{where}: brokers delete no records of a topic with cleanup.policy {policy}")

    @staticmethod
    def _check_followers(plan: Plan) -> None:
        """A follower takes the epoch of a leader elected unclean before it cuts its log, and may rightly show in that
        epoch what the election takes away; one outside the ISR may throw a compacted log away, and its watermark with
        it. No checker can tell that from a fault.
        """
        where = f"{plan.workload.options_where['follower_reads']}: workload.options.follower_reads"
        if plan.system.settings.get(SELECTOR) != RACK_AWARE:
            raise PlanError(f'{where}: followers read for consumers with "{SELECTOR}" = "{RACK_AWARE}" alone')
        policy = plan.topic.config.get("cleanup.policy", "delete")
        if "compact" in policy:
            raise PlanError(
                f'{where}: not of a compacted topic: topic.config."cleanup.policy" is {policy}; it has to be delete'
            )
        own = [
            (f"system.broker.{broker}" if UNCLEAN in settings else "system.settings", plan.system.settings_of(broker))
            for broker in range(1, plan.nodes.brokers + 1)
            for settings in (plan.system.broker.get(broker, {}),)
        ]
        # The topic's setting counts before the brokers'.
        for table, settings in [("topic.config", plan.topic.config)] if UNCLEAN in plan.topic.config else own:
            value = settings.get(UNCLEAN, "false")
            if value.lower() == "true":
                raise PlanError(
                    f'{where}: not beside unclean elections: {table}."{UNCLEAN}" is {value}; it has to be false'
                )

    def open(self, plan: Plan, brokers: Brokers, run: RunContext) -> WideRun:
        """Clients of these brokers; nothing is sent yet."""
        return WideRun(plan, brokers, run)


class WideRun(AppendPollRun):
    """wide in one run; implements `harness.workloads.base.Workload`. Setup and final phase are append-poll's."""

    def __init__(self, plan: Plan, brokers: Brokers, run: RunContext) -> None:
        super().__init__(plan, brokers, run)
        self._options = options_of(plan)
        self.threads = all_threads(plan, self._options)
        self._identities = Identities()
        self._beside = itertools.count(BESIDE)

    def generator(self) -> Generator:
        """The load: sends with company, reads and lookups, mixed and paced."""
        return load(self._plan, self._options)

    def open_client(self, process: int, thread: int) -> Client:
        """A logical process of the load; one of a producer with an id goes on with its identity."""
        history = self._run.history
        if thread >= plain_threads(self._plan):
            return IdempotentClient(
                process, thread, self._settings, self._shared, self._identities, lambda: history.phase
            )
        return WideClient(
            process,
            thread,
            self._settings,
            self._shared,
            lambda: history.phase,
            history,
            partial(next, self._beside),
            self._options.sessions,
            self._options.follower_reads,
        )
