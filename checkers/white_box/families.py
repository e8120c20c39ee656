"""All white-box families of a run, lazily, by the evidence that they rest on."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from checkers.evidence.timeline import Evidence
from checkers.history.faults import Interruption
from checkers.spark.tables import kept
from checkers.verdicts.findings import Family
from checkers.verdicts.jobs import Group
from checkers.white_box.agreement_rules import agreement_rules
from checkers.white_box.controller_rules import controller_rules
from checkers.white_box.event_log_rules import event_log_rules
from checkers.white_box.fetch_rules import fetch_rules
from checkers.white_box.leadership_rules import leadership_rules
from checkers.white_box.live_rules import live_rules
from checkers.white_box.lives import replica_lives
from checkers.white_box.log_rules import log_rules
from checkers.white_box.matching_rules import matching_rules
from checkers.white_box.producer_rules import producer_rules
from checkers.white_box.restart_rules import restart_rules
from checkers.white_box.rise_rules import rise_rules
from checkers.white_box.start_rules import start_rules
from checkers.white_box.watermark_rules import watermark_rules
from checkers.white_box.znode_rules import znode_rules


def white_box(
    evidence: Evidence, raw_events: DataFrame, interruptions: Sequence[Interruption] = ()
) -> dict[str, Group]:
    """Groups that run as one job each. interruptions: when brokers stopped, stood still, were cut off or had files
    changed.
    """

    def timeline() -> list[Family]:
        lives = kept(replica_lives(evidence))
        return [
            watermark_rules(evidence),
            rise_rules(evidence),
            leadership_rules(evidence, lives),
            restart_rules(evidence, lives),
        ]

    def logs() -> list[Family]:
        return [event_log_rules(evidence, raw_events), fetch_rules(evidence)]

    def files() -> list[Family]:
        return [
            log_rules(evidence),
            matching_rules(evidence),
            znode_rules(evidence),
            controller_rules(evidence),
            live_rules(evidence),
            agreement_rules(evidence),
            producer_rules(evidence),
            start_rules(evidence, interruptions),
        ]

    return {"timeline": timeline, "event logs": logs, "files": files}
