"""Rules 4, 5, 6, 9 and 17: high watermarks, acknowledgements and what was shown, from the event logs.

Input grain: one row per event of the timeline. A row found proves that a line of a broker's own log contradicts what
stood in that log before it, or that a client saw more than any leader of that epoch ever held committed. How many
replicas a send asked for says its client, not the broker that answered it.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.evidence.timeline import FOLLOWER_FETCH, Evidence
from checkers.history.responses import by_follower, is_poll, requests_latest, response_epoch, shown_end
from checkers.verdicts.findings import Family, Kind, Rule, apply_rules, figures, text, union
from checkers.verdicts.verdict import ONE_LINE

OFFSET_ORDER = "offset-order"
HW_WITHIN_ISR = "hw-within-isr"
HW_MONOTONE = "hw-monotone"
ACK_COMMITTED = "ack-committed"
SHOWN_COMMITTED = "shown-below-hw"
ONE_LEADER = "one-leader-per-epoch"


def watermark_rules(evidence: Evidence) -> Family:
    timeline = evidence.timeline
    leader_hw = (F.col("e") == "hw") & (F.col("role") == "leader")
    per_partition = timeline.groupBy("p").agg(
        F.count_if(leader_hw).alias("advances"),
        F.count_if(F.col("e") == "hw").alias("hws"),
        F.count_if(F.col("e") == "visible").alias("shown"),
    )
    info = evidence.info
    least = min(info.min_insync_replicas, info.replication_factor or info.min_insync_replicas)
    spared = evidence.touched.spared()
    rules = [
        *(_offset_order(), _end_goes_on(spared), _hw_within_isr(), _hw_monotone()),
        *(_shown(), _stamped_epoch(), _role_epoch()),
    ]
    answers = _answers(evidence)
    acks_all = answers.groupBy("p").agg(F.count_if(_asked() == -1).alias("acks"))
    return Family(
        union(
            [
                apply_rules(timeline, rules),
                apply_rules(answers, [_ack(least), _acks_as_asked(), _all_that_was_sent()]),
                _shown_to_clients(evidence),
                _shown_by_followers(evidence),
            ]
        ),
        union(
            [
                figures(
                    per_partition,
                    {
                        (OFFSET_ORDER, "hw_events"): F.col("hws"),
                        (HW_WITHIN_ISR, "hw_advances"): F.col("advances"),
                        (HW_MONOTONE, "hw_advances"): F.col("advances"),
                        (SHOWN_COMMITTED, "answers_shown"): F.col("shown"),
                    },
                ),
                figures(acks_all, {(ACK_COMMITTED, "acks_all"): F.col("acks")}),
            ]
        ),
    )


def _answers(evidence: Evidence) -> DataFrame:
    """Lines of the timeline about responses to sends, with `asked` and `sent`: the acks of the send that was answered,
    and how many records it had, as its client has it: of that node, at that offset, under way when the line was
    written. Null where no client was answered.
    """
    sends = (
        evidence.history.ops.where(
            (F.col("f") == "send") & (F.col("outcome") == "ok") & F.col("base_offset").isNotNull()
        )
        .groupBy("p", "node", F.col("base_offset").alias("base"))
        .agg(F.collect_list(F.struct("invoke_ns", "complete_ns", "acks", "n_values")).alias("sends"))
    )
    under_way = F.filter("sends", lambda one: F.col("t_ns").between(one["invoke_ns"], one["complete_ns"]))

    def of_one(name: str) -> Column:
        said = F.array_distinct(F.transform(under_way, lambda one: one[name]))
        return F.when(F.size(said) == 1, F.get(said, F.lit(0)))

    return (
        evidence.timeline.where(F.col("e") == "ack")
        .join(sends, on=["p", "node", "base"], how="left")
        .withColumns({"asked": of_one("acks"), "sent": of_one("n_values")})
        .drop("sends")
    )


def _asked() -> Column:
    """acks of the send: of its client, else of the line."""
    return F.coalesce("asked", "acks")


def _acks_as_asked() -> Rule:
    return line_rule(
        ACK_COMMITTED,
        F.col("asked") != F.col("acks"),
        text(
            "the answer for offsets {a} to {z} is said to be one with acks={s}; its client had sent that with acks={c}",
            a=F.col("base"),
            z=F.col("last"),
            s=F.col("acks"),
            c=F.col("asked"),
        ),
        F.col("last"),
    )


def _all_that_was_sent() -> Rule:
    """One batch is one answer: what is below the watermark by a line that leaves out its end, says nothing of that."""
    return line_rule(
        ACK_COMMITTED,
        F.col("last") != F.col("base") + F.col("sent") - 1,
        text(
            "the answer is said to be for offsets {a} to {z}; its client had sent {c} records",
            a=F.col("base"),
            z=F.col("last"),
            c=F.col("sent"),
        ),
        F.col("last"),
    )


def line_rule(
    checker: str,
    when: Column,
    detail: Column,
    offset: Column,
    *,
    alone: Column | None = None,
    kind: Kind | Column = "invalid",
) -> Rule:
    """A rule about one line of an event log, which the text names. alone: where the line proves it by itself."""
    where = text("broker {b}, {p}, event {i}/{s}: ", b=F.col("b"), p=F.col("p"), i=F.col("i"), s=F.col("s"))
    name = F.lit("") if alone is None else F.when(alone, F.lit(ONE_LINE)).otherwise(F.lit(""))
    return Rule(
        checker,
        when,
        F.concat(where, detail),
        kind=kind,
        name=name,
        offset=offset,
        from_ns=F.col("t_ns"),
        to_ns=F.col("t_ns"),
    )


def _own_hw() -> Column:
    """The last HW that this broker took in the epoch of the line, as leader; null when it took none."""
    return F.when(F.col("was_leader.le") == F.col("le"), F.col("was_leader.hw"))


def _offset_order() -> Rule:
    takes = F.col("e").isin("become_leader", "become_follower", "recovered")
    end = F.when(takes, F.col("leo")).otherwise(F.col("was_leo"))
    alone = (takes & (F.col("hw") > F.col("leo"))) | ((F.col("e") == "recovered") & (F.col("log_start") > F.col("leo")))
    return line_rule(
        OFFSET_ORDER,
        ((F.col("e") == "hw") & (F.col("hw") > end)) | alone,
        text(
            "{e} with high watermark {h}, log start {l}, log end {n}",
            e=F.col("e"),
            h=F.col("hw"),
            l=F.col("log_start"),
            n=end,
        ),
        F.col("hw"),
        alone=alone,
    )


def _end_goes_on(spared: Column) -> Rule:
    """A log ends where the line before left it: a role changes nothing, a cut and a leader's batch begin there, what a
    follower appends not below that, and nobody answers for what lies beyond. A lower end would be a cut without a line,
    a higher one is of records that no line has.

    spared: whose files no fault touched.
    """
    takes = F.col("e").isin("become_leader", "become_follower")
    known = F.col("was_leo")
    appends, answers = F.col("e") == "append", F.col("e") == "ack"
    said = (
        F.when(takes, F.col("leo"))
        .when(F.col("e") == "truncate", F.col("from_leo"))
        .when(appends, F.col("base"))
        .when(answers, F.col("last") + 1)
    )
    other = (
        F.when(answers, said > known)
        .when(appends & (F.col("role") == "follower"), said < known)
        .otherwise(said != known)
    )
    untold = takes & known.isNull() & (F.col("leo") > 0)
    return line_rule(
        OFFSET_ORDER,
        spared & (F.coalesce(other, F.lit(False)) | untold),
        text("{e} with a log that ends at {n}; by the lines before it ended at {w}", e=F.col("e"), n=said, w=known),
        said,
        kind=F.when(known.isNull(), F.lit("unknown")).otherwise(F.lit("invalid")),
    )


def _hw_within_isr() -> Rule:
    """hw ≤ the LEO of every member of the maximal ISR, and of the one that was last committed, whatever the line takes
    for it: whether it acted by another, rule 1 says.
    """

    def behind_in(members: Column) -> Column:
        return F.filter(
            members, lambda member: F.coalesce(F.col("leos")[member.cast("string")], F.lit(-1)) < F.col("hw")
        )

    named = F.array_union("isr", "maximal")
    alone = (F.size(behind_in(named)) > 0) | (F.size(F.array_except("isr", "maximal")) > 0)
    behind = behind_in(F.array_union(named, F.coalesce("was_isr", named)))
    return line_rule(
        HW_WITHIN_ISR,
        (F.col("e") == "hw") & (F.col("role") == "leader") & (alone | (F.size(behind) > 0)),
        text(
            "high watermark {h} with log ends {l}, ISR {i} (last committed {w}), maximal {m}; behind: {x}",
            h=F.col("hw"),
            l=F.to_json("leos"),
            i=F.col("isr"),
            w=F.col("was_isr"),
            m=F.col("maximal"),
            x=behind,
        ),
        F.col("hw"),
        alone=alone,
    )


def _hw_monotone() -> Rule:
    return line_rule(
        HW_MONOTONE,
        (F.col("e") == "hw") & (F.col("role") == "leader") & (F.col("hw") < _own_hw()),
        text("high watermark {h} in epoch {le} after {w}", h=F.col("hw"), le=F.col("le"), w=_own_hw()),
        F.col("hw"),
    )


def _ack(least: int) -> Rule:
    """least: the run's min ISR; what the broker takes it for (`min_isr`) may be more, never less."""
    uncommitted = F.col("hw") <= F.col("last")
    wanted = F.greatest("min_isr", F.lit(least))
    too_few = F.size("isr") < wanted
    committed_too_few = F.coalesce(F.size("was_isr") < wanted, F.lit(True))
    problems = F.array_compact(
        F.array(
            F.when(uncommitted, F.lit("the high watermark had not passed it")),
            F.when(F.coalesce(_own_hw() < F.col("hw"), F.lit(True)), F.lit("its high watermark was never logged")),
            F.when(too_few | committed_too_few, F.lit("the ISR was below its minimum")),
        )
    )
    return line_rule(
        ACK_COMMITTED,
        (_asked() == -1) & (F.size(problems) > 0),
        text(
            "acks=all answered for offsets {a} to {z} with high watermark {h}, ISR {i} (last committed {w}), min ISR "
            "{m}: {x}",
            a=F.col("base"),
            z=F.col("last"),
            h=F.col("hw"),
            i=F.col("isr"),
            w=F.col("was_isr"),
            m=wanted,
            x=F.array_join(problems, "; "),
        ),
        F.col("last"),
        alone=uncommitted | too_few,
    )


def _shown() -> Rule:
    """A follower that reads for a consumer goes by its own watermark, whoever taught it."""
    own = F.when(F.col("kind") == FOLLOWER_FETCH, F.col("was_hw")).otherwise(_own_hw())
    return line_rule(
        SHOWN_COMMITTED,
        (F.col("e") == "visible") & ((F.col("upto") > F.col("hw")) | F.coalesce(F.col("hw") > own, F.lit(True))),
        text(
            "{k} showed everything below {u} with high watermark {h} (its last logged one in epoch {le}: {o})",
            k=F.col("kind"),
            u=F.col("upto"),
            h=F.col("hw"),
            le=F.col("le"),
            o=own,
        ),
        F.col("upto") - 1,
        alone=F.col("upto") > F.col("hw"),
    )


def _stamped_epoch() -> Rule:
    """A leader stamps the epoch of its last role, no other."""
    return line_rule(
        ONE_LEADER,
        (F.col("e") == "append") & (F.col("role") == "leader") & ~F.col("was_le").eqNullSafe(F.col("le")),
        text("appended as leader of epoch {le}; its last role was of epoch {w}", le=F.col("le"), w=F.col("was_le")),
        F.col("base"),
    )


def _role_epoch() -> Rule:
    """A broker takes no role of an epoch below that of its last role."""
    return line_rule(
        ONE_LEADER,
        F.col("e").isin("become_leader", "become_follower") & (F.col("le") < F.col("role_le")),
        text("{e} in epoch {le} after a role of epoch {w}", e=F.col("e"), le=F.col("le"), w=F.col("role_le")),
        F.col("leo"),
    )


def _shown_to_clients(evidence: Evidence) -> DataFrame:
    """Records that clients saw in an epoch, or watermarks and ends that they got, lie below the highest HW that its
    leader ever logged.
    """
    highest = evidence.epochs.select("p", F.col("le").alias("leader_epoch"), F.col("leader_hw").alias("highest"))
    by_client = requests_latest() | (is_poll() & (F.col("reader") == "wire"))
    responses = _showing(evidence, by_client).where(F.col("leader_epoch") >= 0)
    return _held_below(
        responses.join(F.broadcast(highest), on=["p", "leader_epoch"], how="left"),
        "a {f} of {p} in epoch {le} showed offset {o}; the highest watermark that its leader logged in that epoch "
        "is {h}",
        f=F.col("f"),
        p=F.col("p"),
        le=F.col("leader_epoch"),
    )


def _shown_by_followers(evidence: Evidence) -> DataFrame:
    """What a follower showed lies below the highest watermark that this very broker ever logged for the partition."""
    own = evidence.timeline.where(F.col("hw").isNotNull() & (F.col("e") != "visible"))
    highest = own.groupBy("p", "node").agg(F.max("hw").alias("highest"))
    return _held_below(
        _showing(evidence, by_follower()).join(F.broadcast(highest), on=["p", "node"], how="left"),
        "{n}, a follower of {p}, showed offset {o}; the highest watermark that it ever logged is {h}",
        n=F.col("node"),
        p=F.col("p"),
    )


def _showing(evidence: Evidence, by: Column) -> DataFrame:
    """Responses that show something, with the last offset that they do. Only those that completed before their node's
    log was copied: for them every line had been written.
    """
    copied = evidence.events.groupBy("node").agg(F.max("t_ns").alias("copied_ns"))
    return (
        evidence.history.requests.where((F.col("outcome") == "ok") & by & (shown_end() > 0))
        .select(
            "p",
            "op",
            "f",
            "node",
            response_epoch().alias("leader_epoch"),
            (shown_end() - 1).alias("last_offset"),
            "invoke_ns",
            "complete_ns",
        )
        .join(F.broadcast(copied), on="node", how="inner")
        .where(F.col("complete_ns") < F.col("copied_ns"))
    )


def _held_below(responses: DataFrame, template: str, **said: Column) -> DataFrame:
    """schema.FINDING of those whose `last_offset` is not below `highest`; undecided where that is null."""
    highest = F.col("highest")
    return apply_rules(
        responses,
        [
            Rule(
                SHOWN_COMMITTED,
                highest.isNull() | (F.col("last_offset") >= highest),
                text(template, o=F.col("last_offset"), h=highest, **said),
                kind=F.when(highest.isNull(), F.lit("unknown")).otherwise(F.lit("invalid")),
                offset=F.col("last_offset"),
                ops=[F.col("op")],
                from_ns=F.col("invoke_ns"),
                to_ns=F.col("complete_ns"),
            )
        ],
    )
