"""What the rules found in a run: which families judge it, by its checkers, and of which history.

Uses every family of rules; decides no verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from checkers.admin.families import administration
from checkers.allowances.allowances import excuse_rows, excuse_unclean
from checkers.applications.families import applications
from checkers.black_box.facts import Facts, build_facts
from checkers.black_box.families import black_box, of_imported
from checkers.black_box.followers import of_followers
from checkers.compaction.families import compaction
from checkers.coverage.compacted import unfit
from checkers.coverage.missing_evidence import clients_resend, wanted
from checkers.coverage.queries import leader_changes
from checkers.evidence.absences import absences, with_gone
from checkers.evidence.interrupted import joined
from checkers.evidence.timeline import Evidence
from checkers.groups.families import of_groups
from checkers.history.faults import Fault, interruptions
from checkers.history.load import History
from checkers.history.remade import ended_lives
from checkers.progress import Progress
from checkers.settled.figures import with_settled
from checkers.settled.unsettle import Settled, settled_of
from checkers.spark.places import Place
from checkers.topics.families import remade_topics
from checkers.transactions.families import transactions
from checkers.verdicts.administration import ADMIN, REMADE
from checkers.verdicts.catalogue import APPLICATIONS, BY_NAME, COMPACTION, FOLLOWERS, GROUPS, LOOKUPS
from checkers.verdicts.jobs import collect_families
from checkers.verdicts.transactions import CYCLES, TRANSACTIONS
from checkers.verdicts.verdict import Row
from checkers.white_box.families import white_box


def found(
    history: History,
    evidence: Evidence,
    raw_events: DataFrame,
    faults: Sequence[Fault],
    progress: Progress,
    *,
    has_znodes: bool,
    tables: Place | None,
    after: int,
) -> list[Row]:
    """What all families of rules found, black box and white box. tables: where a long history's are; after: jobs that
    follow.
    """
    spans = joined(interruptions(faults))
    if has_znodes and spans and evidence.expiry is not None and evidence.expiry.requested:
        absent_ns = absences(evidence.znodes.registrations, evidence.events, evidence.info)
        spans = with_gone(spans, absent_ns, evidence.info.session_timeout_ms)
    settled = None if tables is None else _settled(history, evidence, tables)
    resends = clients_resend(evidence.info)

    def facts_of(some: History) -> Facts:
        return build_facts(
            some,
            leader_changes(history, evidence),
            expiry=evidence.expiry,
            unclean=evidence.unclean,
            events=evidence.events,
            interruptions=spans,
            lookups=wanted(BY_NAME["wrong-lookup"], evidence.info),
            start_written_ns=evidence.info.start_written_ns,
            settled=None if settled is None else settled.acked,
            ended=ended_lives(history.coordination) if evidence.info.remade else None,
            resends=resends,
            batches=evidence.batches.where(evidence.sound()) if resends else None,
        )

    facts = facts_of(history if settled is None else settled.rest)
    of_records = facts_of(settled.records) if settled is not None and settled.records is not None else None
    families = {**black_box(facts, of_records), **white_box(evidence, raw_events, spans)}
    if evidence.info.imported:
        families |= of_imported(facts)
    if any(wanted(spec, evidence.info) for spec in GROUPS):
        families |= of_groups(history)
    if any(wanted(spec, evidence.info) for spec in TRANSACTIONS):
        families |= transactions(facts, cycles=any(wanted(spec, evidence.info) for spec in CYCLES))
    if any(wanted(spec, evidence.info) for spec in APPLICATIONS):
        families |= applications(facts)
    if any(wanted(spec, evidence.info) for spec in COMPACTION):
        families |= compaction(facts, evidence.info.tombstones_ms)
    if any(wanted(spec, evidence.info) for spec in ADMIN):
        families |= administration(history, faults, one_server=len(evidence.info.zookeepers) == 1)
    if any(wanted(spec, evidence.info) for spec in REMADE):
        families |= remade_topics(history, faults, over_when_answered=evidence.info.system_kind == "highwater")
    if any(wanted(spec, evidence.info) for spec in FOLLOWERS):
        families |= of_followers(history, faults)
    progress.rest(len(families) + after)
    found = collect_families(families, excuse=excuse_unclean(evidence.unclean), done=progress.done)
    rows = excuse_rows(evidence.unclean, found)
    if settled is not None:
        rows = with_settled(rows, settled.counts, settled.available)
    # Figures stay: how much was acknowledged is one.
    return [row for row in rows if row.kind == "figure" or not unfit(row.checker, evidence.info)]


def _settled(history: History, evidence: Evidence, tables: Place) -> Settled | None:
    """What of a history needs counting only; None where rules look at more of a record than that is known of."""
    others = (*TRANSACTIONS, *APPLICATIONS, *COMPACTION, *LOOKUPS, *FOLLOWERS)
    more = evidence.info.imported or evidence.info.remade or any(wanted(spec, evidence.info) for spec in others)
    if more or evidence.unclean or evidence.expiry is not None:
        return None
    return settled_of(history, tables)
