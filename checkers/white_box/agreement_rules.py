"""Rule 1 between brokers and ZooKeeper: every state that a broker acted by was committed in ZooKeeper.

Input grain: one row per role taken, ISR taken for committed, advance of a leader's watermark, or acks=all response, in
a broker's event log, matched by the state znode's version. A row of kind invalid proves that a broker acted by a state
that never was: of an advance or a response, that its ISR was another than that of the version which the broker had last
taken for committed, as one that is only proposed is. Whether the watermark was too high for it, rule 5 says.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from checkers.evidence.event_log_gaps import incarnations, whole
from checkers.evidence.timeline import Evidence
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text
from checkers.white_box.znode_rules import ISR_ZNODE


def agreement_rules(evidence: Evidence) -> Family:
    """Every version of a state that a broker took a role by, thought committed, or acted by as leader, is in ZooKeeper,
    and says the same: who leads, in which epoch, with which ISR.

    One that is not there is unknown: the transaction log may have been cut off at its end. Lines from after the drain
    began may be younger than the copy of the transaction log.
    """
    drains = evidence.history.requests.where(F.col("phase").startswith("drain"))
    began = drains.groupBy("p").agg(F.min("invoke_ns").alias("drain_ns"))
    leads = ((F.col("e") == "hw") & (F.col("role") == "leader")) | ((F.col("e") == "ack") & (F.col("acks") == -1))
    told = F.col("e").isin("become_leader", "become_follower", "isr_commit")
    # What a leader acts by, an earlier line of its life says: that one may be missing where lines are.
    unbroken = incarnations(evidence.events).where(whole()).select("i", F.lit(True).alias("whole"))
    acted = (
        evidence.timeline.where(told | leads)
        .where(evidence.lasting())
        .join(F.broadcast(unbroken), on="i", how="left")
        .where(told | (F.col("whole") & F.col("was_pe").isNotNull()))
        .join(F.broadcast(began), on="p", how="left")
        .where(F.col("drain_ns").isNull() | (F.col("t_ns") < F.col("drain_ns")))
        # A broker that takes an ISR for committed is the leader, as one that becomes leader is.
        .withColumn("led_by", F.when(F.col("e") == "become_follower", F.col("leader")).otherwise(F.col("b")))
        .withColumn("pe", F.when(told, F.col("pe")).otherwise(F.col("was_pe")))
        .select("b", "i", "s", "e", "p", "le", "pe", "led_by", "isr", "t_ns", told.alias("told"))
    )
    # A topic made anew counts its versions from 0 again: any of its lives will do.
    states = evidence.znodes.states.groupBy("p", F.col("version").alias("pe")).agg(
        F.collect_set(_claim(F.col("leader"), F.col("leader_epoch"))).alias("said")
    )
    judged = acted.join(F.broadcast(states), on=["p", "pe"], how="left")
    agrees = F.array_contains("said", _claim(F.col("led_by"), F.col("le")))
    found = apply_rules(
        judged,
        [
            Rule(
                ISR_ZNODE,
                (F.col("told") & F.col("said").isNull()) | ~agrees,
                text(
                    "broker {b}, event {n}/{s}: acted by version {v} of {p} ({e}) with leader {l}, leader epoch {le} "
                    "and ISR {i}; ZooKeeper's log has {z}",
                    b=F.col("b"),
                    n=F.col("i"),
                    s=F.col("s"),
                    v=F.col("pe"),
                    p=F.col("p"),
                    e=F.col("e"),
                    l=F.col("led_by"),
                    le=F.col("le"),
                    i=F.col("isr"),
                    z=F.coalesce(F.to_json("said"), F.lit("no such version")),
                ),
                kind=F.when(F.col("said").isNull(), F.lit("unknown")).otherwise(F.lit("invalid")),
                from_ns=F.col("t_ns"),
                to_ns=F.col("t_ns"),
            )
        ],
    )
    per_partition = judged.groupBy("p").agg(F.count_if("told").alias("told"), F.count_if(~F.col("told")).alias("acts"))
    return Family(
        found,
        figures(
            per_partition,
            {(ISR_ZNODE, "versions_acted_by"): F.col("told"), (ISR_ZNODE, "acts_of_leaders"): F.col("acts")},
        ),
    )


def _claim(leader: Column, leader_epoch: Column) -> Column:
    return F.struct(leader.alias("leader"), leader_epoch.alias("le"), F.array_sort("isr").alias("isr"))
