"""Resend offset, producer order: what responses say of batches with a producer id, epoch and sequence (KIP-98).

Input grain: one row per batch of a partition, with all requests that sent it. Resend offset: two requests with one
batch were acknowledged at different offsets. Producer order: batches that were acknowledged, or read though no request
with them was, do not stand in the order of epoch and sequence; the predecessor of one was certainly never taken; or a
batch is refused although it was next. Producers with a transactional id are left out of the last: their coordinator
raises epochs too. Sequences are compared as numbers: no run comes near their wrap-around.

An unclean election may lose a batch that was acknowledged, and what is then known of its producer: a later one stands
no higher, or is refused, and it may itself be appended once more. Which findings are attributable to one is decided by
partition, leader epochs and times, as of any loss. It invents no epoch of a producer, and no batch before another.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.black_box.batches import batch_base, read_once
from checkers.black_box.facts import Facts, in_log
from checkers.evidence.unclean_elections import with_highest
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

RESEND_OFFSET = "resend-offset"
ORDER = "producer-order"
BACK, REFUSED = "back", "refused"
"""Rules of the order that an unclean election can account for."""


def producer_checks(facts: Facts) -> Family:
    """Both checkers, and how much they rest on."""
    read = F.struct(
        F.col("first_read_ns").alias("complete_ns"),
        batch_base().alias("offset"),
        F.col("first_read.read_op").alias("op"),
    )
    at_read = F.coalesce(F.col("ack_offset") == F.col("min_read_offset"), F.lit(True))
    known = facts.by_value.select(
        "p",
        "value",
        F.col("epoch").alias("leader_epoch"),
        F.when(read_once(), read).alias("read"),
        # Of a value that stands elsewhere too it is not known which of its places is of that epoch.
        F.when((read_once() & at_read) | (F.col("n_reads") == 0), F.col("epoch")).alias("place_epoch"),
    )
    batches = (
        producer_batches(facts.history.sends)
        .join(known, on=["p", "value"], how="left")
        # What is there though each request with it certainly failed is another anomaly.
        .withColumn("there", F.coalesce("acked", F.when(F.col("taken"), F.col("read"))))
    )
    per_partition = batches.groupBy("p").agg(
        F.count("acked").alias("acknowledged"),
        F.sum(F.when(F.col("n_acked") > 1, F.col("n_acked") - 1)).alias("again"),
        F.sum("n_requests").alias("requests"),
        F.sum("n_refused").alias("refused"),
    )
    return Family(
        union([apply_rules(batches, [_offset_differs()]), *_order(facts, batches)]),
        figures(
            per_partition,
            {
                (RESEND_OFFSET, "acknowledged_again"): F.col("again"),
                (ORDER, "acknowledged_batches"): F.col("acknowledged"),
                (ORDER, "requests"): F.col("requests"),
                (ORDER, "refused"): F.col("refused"),
            },
        ),
    )


def producer_batches(sends: DataFrame) -> DataFrame:
    """One row per batch (p, producer_id, producer_epoch, batch): sequence, `end` (the sequence behind it), and of the
    requests that sent it: `acked`, struct(complete_ns, offset, op) of the first response that was ok; `low`, `high`,
    struct(offset, op) of the acknowledgements; `first`, struct(op, invoke_ns, error, complete_ns, outcome).

    batch: op of its first request. taken: whether the log may have it.
    """
    requests = (
        sends.where(F.col("producer_id").isNotNull() & F.col("sequence").isNotNull())
        .groupBy("p", "op")
        .agg(
            *[
                F.first(name).alias(name)
                for name in ("producer_id", "producer_epoch", "sequence", "transactional_id", "error", "outcome")
            ],
            F.coalesce(F.first("resends"), F.col("op")).alias("batch"),
            F.first(in_log()).alias("in_log"),
            F.first("invoke_ns").alias("invoke_ns"),
            F.first("complete_ns").alias("complete_ns"),
            F.min("offset").alias("offset"),
            F.min("value").alias("value"),
            F.count(F.lit(1)).alias("records"),
        )
    )
    ok = (F.col("outcome") == "ok") & F.col("offset").isNotNull()
    at = F.when(ok, F.struct("offset", "op"))
    return requests.groupBy("p", "producer_id", "producer_epoch", "batch").agg(
        F.min("sequence").alias("sequence"),
        (F.min("sequence") + F.max("records")).alias("end"),
        F.min("value").alias("value"),
        F.max("transactional_id").alias("transactional_id"),
        F.min(F.when(ok, F.struct("complete_ns", "offset", "op"))).alias("acked"),
        F.min(at).alias("low"),
        F.max(at).alias("high"),
        F.max(F.when(ok, F.col("complete_ns"))).alias("acked_last_ns"),
        F.min(F.struct("op", "invoke_ns", "error", "complete_ns")).alias("first"),
        F.count(at).alias("n_acked"),
        F.count(F.lit(1)).alias("n_requests"),
        F.count_if(F.col("outcome") == "fail").alias("n_refused"),
        (F.max("in_log") != "fail").alias("taken"),
    )


def _who() -> Column:
    return text("producer {i} epoch {e}", i=F.col("producer_id"), e=F.col("producer_epoch"))


def _is_at() -> Column:
    return F.when(F.col("acked").isNull(), F.lit(" was read at offset ")).otherwise(
        F.lit(" was acknowledged at offset ")
    )


def _unacknowledged() -> Column:
    """Its first request, where no response is about it."""
    return F.when(F.col("acked").isNull(), F.col("batch"))


def _offset_differs() -> Rule:
    return Rule(
        RESEND_OFFSET,
        F.col("low.offset") != F.col("high.offset"),
        F.concat(
            text("{p}: the batch of sequence {s} of ", p=F.col("p"), s=F.col("sequence")),
            _who(),
            text(" was acknowledged at offset {a} and at {b}", a=F.col("low.offset"), b=F.col("high.offset")),
        ),
        offset=F.col("high.offset"),
        value=F.col("value"),
        ops=[F.col("low.op"), F.col("high.op")],
        from_ns=F.col("acked.complete_ns"),
        to_ns=F.col("acked_last_ns"),
        lost_epoch=F.col("leader_epoch"),
    )


def _order(facts: Facts, batches: DataFrame) -> list[DataFrame]:
    order = Window.orderBy("producer_epoch", "sequence", "batch").rowsBetween(Window.unboundedPreceding, -1)
    place = F.struct("there.offset", "batch", "sequence", "producer_epoch", "there.complete_ns", "place_epoch")
    there, of = batches.where(F.col("there").isNotNull()), ["p", "producer_id"]
    placed = there.transform(
        with_highest, facts.unclean, "above", place, of, order, "place_epoch", F.col("there.offset")
    )
    # Whichever of the two places was lost, the other one was taken since.
    epochs, times = ("above.place_epoch", "place_epoch"), ("above.complete_ns", "there.complete_ns")
    both = F.col(epochs[0]).isNotNull() & F.col(epochs[1]).isNotNull()
    back = Rule(
        ORDER,
        F.col("above.offset") >= F.col("there.offset"),
        F.concat(
            text("{p}: sequence {s} of ", p=F.col("p"), s=F.col("sequence")),
            _who(),
            _is_at(),
            text(
                "{o}, and sequence {t} of epoch {f} at {a}",
                o=F.col("there.offset"),
                t=F.col("above.sequence"),
                f=F.col("above.producer_epoch"),
                a=F.col("above.offset"),
            ),
        ),
        name=BACK,
        offset=F.col("there.offset"),
        value=F.col("value"),
        ops=[F.col("above.batch"), _unacknowledged(), F.col("there.op")],
        from_ns=F.least(*times),
        to_ns=F.greatest(*times),
        lost_epoch=F.when(both, F.least(*epochs)),
        missed_epoch=F.when(both, F.greatest(*epochs)),
    )
    epoch = ("p", "producer_id", "producer_epoch")
    before = (
        batches.where(F.col("taken"))
        .groupBy(*epoch, F.col("end").alias("sequence"))
        .agg(F.min(F.struct("acked.complete_ns", "batch", "leader_epoch")).alias("before"))
    )
    followed = (
        batches.withColumn("at_sequence", F.count(F.lit(1)).over(Window.partitionBy(*epoch, "sequence")))
        .withColumn("newest_epoch", F.max("producer_epoch").over(Window.partitionBy("p", "producer_id")))
        .join(before, on=[*epoch, "sequence"], how="left")
    )
    return [apply_rules(placed, [back]), apply_rules(followed, [_without_predecessor(), *_refused()])]


def _without_predecessor() -> Rule:
    return Rule(
        ORDER,
        F.col("there").isNotNull() & (F.col("sequence") > 0) & F.col("before").isNull(),
        F.concat(
            text("{p}: sequence {s} of ", p=F.col("p"), s=F.col("sequence")),
            _who(),
            _is_at(),
            text("{o}, and no batch before it can have been taken", o=F.col("there.offset")),
        ),
        offset=F.col("there.offset"),
        value=F.col("value"),
        ops=[_unacknowledged(), F.col("there.op")],
        from_ns=F.col("first.invoke_ns"),
        to_ns=F.col("there.complete_ns"),
    )


def _refused() -> list[Rule]:
    """A batch's first request, refused though its predecessor was acknowledged before that was sent."""
    plain, error = F.col("transactional_id").isNull(), F.col("first.error")
    next_ = (F.col("before.complete_ns") < F.col("first.invoke_ns")) & (F.col("at_sequence") == 1)

    def refused(name: str, when: Column, why: str) -> Rule:
        return Rule(
            ORDER,
            plain & when,
            F.concat(
                text("{p}: sequence {s} of ", p=F.col("p"), s=F.col("sequence")),
                _who(),
                text(" was refused with {x}, " + why, x=error),
            ),
            name=name,
            value=F.col("value"),
            ops=[F.col("before.batch"), F.col("first.op")],
            from_ns=F.coalesce("before.complete_ns", "first.invoke_ns"),
            to_ns=F.col("first.complete_ns"),
            lost_epoch=F.col("before.leader_epoch"),
        )

    return [
        refused(
            REFUSED,
            (error == "OUT_OF_ORDER_SEQUENCE_NUMBER") & next_,
            "although the batch before it had been acknowledged",
        ),
        refused(
            "epoch",
            (error == "INVALID_PRODUCER_EPOCH") & (F.col("producer_epoch") == F.col("newest_epoch")),
            "although nobody sends under a higher epoch",
        ),
    ]
