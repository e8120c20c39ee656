"""One run's folder → its verdict, results.json and series.json. The order of work; every rule is elsewhere.

Evidence is decoded while the JVM starts; history and event logs are read once and written as Parquet; families run as
a few jobs, some at a time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from checkers.allowances.allowances import reason_for
from checkers.allowances.expiry import expiry_of
from checkers.coverage import damage_met as damage
from checkers.coverage import incidents
from checkers.coverage.missing_evidence import ORDERED, missing_evidence_of, not_applicable, run_reasons, wanted
from checkers.coverage.queries import work_in
from checkers.coverage.recovery import QuietWindow, load_end_ns, quiet_windows_of
from checkers.coverage.requirements import CoverageResult, judge_coverage
from checkers.coverage.seen import Queries
from checkers.evidence.events import convert_events, load_events, sound
from checkers.evidence.fetched import RunFolder, fetched
from checkers.evidence.prepare import Prepared, batches_table, prepare
from checkers.evidence.timeline import Evidence, build_evidence
from checkers.evidence.znodes import znode_tables
from checkers.found import found
from checkers.history import schema
from checkers.history.faults import Fault, faults_of
from checkers.history.health import HistoryHealth
from checkers.history.load import History, convert, load_history
from checkers.history.remade import lasting_lives
from checkers.history.run_info import RunInfo, UnreadableRun, load_run_info
from checkers.progress import Progress
from checkers.results import results as run_report
from checkers.results import series
from checkers.results.witnesses import history_lines, replica_holdings, script_names
from checkers.settled.unsettle import LEAST_BYTES
from checkers.spark.hadoop import HadoopFiles
from checkers.spark.master import is_local, is_submitted
from checkers.spark.places import Place, Stored, is_file, lines_with
from checkers.spark.session import history_bytes, open_session, start_java, suit
from checkers.spark.tables import read_table
from checkers.spark.threads import name_site, threads
from checkers.verdicts.catalogue import ALL, BY_NAME
from checkers.verdicts.prefixes import stands
from checkers.verdicts.verdict import CheckResult, Row, Verdict, by_checker, found_unasked, judge, worst

_AFTER_FAMILIES = 4
"""Jobs that begin once the rules have been looked at: work in quiet windows, opened damage, witnesses, series."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """What was written: the verdict, its sentence, and the whole of results.json."""

    verdict: Verdict
    sentence: str
    results: Mapping[str, Any]


def analyse(
    run_dir: Path | str,
    *,
    spark_master: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
    progress_file: Path | None = None,
    into: Path | None = None,
) -> Analysis:
    """Judge a run and write results.json and series.json into its folder. Raises UnreadableRun, UnknownPlace.

    run_dir: a folder, or the URI of one that Hadoop knows. spark_conf: Spark's settings that go before the checkers'
    own. spark: a session that goes on afterwards, with nothing left in its cache; None: one for this run alone.
    progress_file: where to say how far it is (`checkers.progress`). into: a folder, new or empty, for what is read here
    of a URI, and for what was written there.
    """
    began = time.monotonic()
    with _opened(run_dir, spark_master, spark_conf or {}, into) as folder:
        info = load_run_info(folder.local)
        folder.forget_verdict()
        if info.checkers is not None and (not info.checkers or info.checkers - set(BY_NAME)):
            wrong = ", ".join(sorted(info.checkers - set(BY_NAME))) or "no checker at all"
            raise UnreadableRun(f"{folder.whole / 'run.json'}: checkers: {wrong}; there are {', '.join(BY_NAME)}")
        path, parquet = folder.whole / "history.jsonl", folder.whole / "parquet"
        if not is_file(path):
            raise UnreadableRun(f"{path}: not there; a run folder holds run.json and history.jsonl")
        progress = Progress(progress_file)
        with ThreadPoolExecutor(2) as early:
            own = spark is None
            here = _reads_here(spark_master, spark)
            converting = early.submit(convert, path, parquet) if here else None
            decoding = progress.watch(early.submit(_prepared, folder, info, here=here))
            size = history_bytes(folder.whole)
            session = spark or open_session(spark_master, history_bytes=size, conf=spark_conf)
            suit(session, size, spark_conf)
            name_site()
            with threads(4) as pool:
                try:
                    odd = None if converting is None else converting.result()
                    reading = progress.watch(pool.submit(load_history, session, path, parquet, odd))
                    prepared, left = decoding.result()
                    raw_events = load_events(session, prepared.event_files, info, parquet, left)
                    history, health = reading.result()
                    results, charts = _judge(
                        pool,
                        progress,
                        session,
                        folder,
                        info,
                        history,
                        health,
                        prepared,
                        raw_events,
                        settle=size >= LEAST_BYTES,
                    )
                    results["analysis"] = {
                        "seconds": round(time.monotonic() - began, 1),
                        "operations": health.operations,
                        "evidence_nodes": prepared.evidence_nodes,
                        "spark": session.version,
                    }
                finally:
                    if own:
                        session.stop()
                    else:
                        session.catalog.clearCache()
        run_report.write_json(folder.local / "series.json", charts)
        run_report.write_json(folder.local / "results.json", results)
        folder.publish()
    return Analysis(results["verdict"], results["sentence"], results)


def _prepared(folder: RunFolder, info: RunInfo, *, here: bool) -> tuple[Prepared, Mapping[str, Place] | None]:
    """What needs no session, with what `convert_events` returned. here: whether this process reads the event logs."""
    prepared = prepare(folder.local, info, folder.whole)
    parquet = folder.whole / "parquet"
    return prepared, convert_events(prepared.event_files, info, parquet) if here else None


def _reads_here(spark_master: str | None, spark: SparkSession | None) -> bool:
    """Whether this process reads the history's lines, while Java starts; a cluster's workers do it together."""
    return spark is not None or (not is_submitted() and is_local(spark_master or "local"))


@contextmanager
def _opened(
    run_dir: Path | str, spark_master: str | None, spark_conf: Mapping[str, str], into: Path | None
) -> Iterator[RunFolder]:
    """Of a URI, with what is read here copied. Java has to run before it can be asked what there is."""
    if isinstance(run_dir, Path):
        here = run_dir.resolve()
        yield RunFolder(here, here)
        return
    start_java(spark_master, spark_conf)
    files = HadoopFiles(run_dir, spark_conf)
    with TemporaryDirectory(prefix="highwater-run-") as scratch:
        yield fetched(Stored(files.root, files), into or Path(scratch))


@dataclass(frozen=True, slots=True)
class _Judged:
    """What the checkers found in a run, and what else the results need."""

    checks: Sequence[CheckResult]
    rows: Sequence[Row]
    faults: Sequence[Fault]
    marks: Sequence[Mapping[str, Any]]
    quiet_windows: Sequence[QuietWindow]


def _judge(
    pool: ThreadPoolExecutor,
    progress: Progress,
    session: SparkSession,
    folder: RunFolder,
    info: RunInfo,
    history: History,
    health: HistoryHealth,
    prepared: Prepared,
    raw_events: DataFrame,
    *,
    settle: bool,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(results.json without `analysis`, series.json). settle: whether what is settled is to be left out."""
    chosen = history.marks.where((F.col("kind") == "nemesis") | F.col("f").isin(*incidents.MARKS, "phase"))
    marks = progress.watch(pool.submit(lambda: [row.asDict() for row in chosen.collect()]))
    evidence = _evidence(session, folder.whole, info, history, health, prepared, raw_events, marks)
    queries = Queries(pool, progress, history, evidence)
    faults = faults_of(marks.result())
    has_znodes = not prepared.missing_evidence.get("zookeeper")
    tables = folder.whole / "parquet" if settle else None
    rows = found(
        history, evidence, raw_events, faults, progress, has_znodes=has_znodes, tables=tables, after=_AFTER_FAMILIES
    )
    quiet_windows = [] if info.scripted else quiet_windows_of(info, faults, load_end_ns(marks.result()))
    work = pool.submit(work_in, history, quiet_windows)
    work.add_done_callback(lambda _: progress.done())
    checks = _checks(info, health, prepared, rows, marks.result(), evidence)
    judged = _Judged(checks, rows, faults, marks.result(), quiet_windows)
    met = damage.meetings(faults, damage.openings(evidence, faults))
    progress.done()
    durable = run_report.durability(rows, info.partitions)
    seen = queries.seen(folder.local, prepared, faults, marks.result(), rows, durable, met, quiet_windows, work)
    # What was done to the cluster meanwhile, a history from elsewhere does not say.
    coverage = judge_coverage(seen, scripted=info.scripted or info.imported, checks=info.checks)
    _join_witnesses(session, folder.whole, checks, faults, evidence)
    progress.done()
    results = _results(info, health, judged, durable, coverage, met, evidence)
    if info.scripted:
        steps = lines_with(folder.whole / "history.jsonl", '"step"')
        results["names"] = script_names(line.decode("utf-8", "replace") for line in steps)
    charts = series.of_run(history, evidence.events, info, results["faults"])
    progress.done()
    return results, charts


def _evidence(
    session: SparkSession,
    run_dir: Place,
    info: RunInfo,
    history: History,
    health: HistoryHealth,
    prepared: Prepared,
    raw_events: DataFrame,
    marks: Future[list[dict[str, Any]]],
) -> Evidence:
    """The evidence tables; segments count only of nodes whose folders were copied whole."""
    parquet = run_dir / "parquet"
    znodes = znode_tables(read_table(session, schema.ZNODE, parquet / "znodes"))
    events = sound(raw_events)
    return build_evidence(
        info,
        history,
        events,
        znodes,
        batches_table(session, run_dir, prepared),
        read_table(session, schema.CHECKPOINT, parquet / "checkpoints"),
        [node for node in prepared.segment_nodes if node in incidents.copied(marks.result())],
        expiry_of(run_dir / "history.jsonl", info, events, requested=health.deletions > 0),
        _lives(history, prepared) if info.remade and info.remade_keep_all else (),
    )


def _lives(history: History, prepared: Prepared) -> list[str]:
    """The last lives of topics that were made anew, all of whose folders say which life they are of."""
    lives = lasting_lives(history.coordination)
    return [life for life in lives if life.partition("~")[0] not in prepared.unnamed]


def _checks(
    info: RunInfo,
    health: HistoryHealth,
    prepared: Prepared,
    rows: Sequence[Row],
    marks: Sequence[Mapping[str, Any]],
    evidence: Evidence,
) -> list[CheckResult]:
    """One result for each checker that the run's workload and system name."""
    missing_evidence = missing_evidence_of(info, health, prepared, rows, marks)
    found = by_checker(rows)
    checks = []
    for spec in (spec for spec in ALL if wanted(spec, info)):
        mine = found[spec.name]
        allowed = reason_for(
            spec.name,
            acks_one=info.workload_acks not in ("all", "-1"),
            retention=evidence.expiry is not None,
            unclean=bool(evidence.unclean),
            rules={row.rule for row in mine if row.kind == "allowed"},
        )
        checks.append(
            judge(
                spec,
                mine,
                info.partitions,
                missing_evidence=[text for source in spec.sources for text in missing_evidence.get(source, ())],
                doubted=any(missing_evidence.get(source) for source in spec.sources if source in ORDERED),
                not_applicable=not_applicable(spec, info, mine),
                allowed=allowed,
            )
        )
    return checks


def _results(
    info: RunInfo,
    health: HistoryHealth,
    judged: _Judged,
    durable: list[dict[str, Any]],
    coverage: CoverageResult,
    met: Mapping[int, damage.Meeting],
    evidence: Evidence,
) -> dict[str, Any]:
    """results.json without `analysis`: the verdict is the worst of all checkers; what was not seen makes it unknown."""
    checks, faults = judged.checks, judged.faults
    unavailable = incidents.unavailable(judged.marks)
    not_fired = incidents.not_fired(info, faults, unavailable)
    unwanted = [spec for spec in ALL if not wanted(spec, info)]
    left_out = [spec for spec in unwanted if not spec.own]
    found = by_checker(judged.rows)
    unasked = [text for spec in unwanted if (text := found_unasked(spec, found[spec.name])) is not None]
    early = info.ended_early
    confirmed = early is not None and stands(early.checker, early.partition, checks, judged.rows)
    unshown = [] if early is None or confirmed else [f"{early.said}, which the whole history does not show"]
    reasons = [*run_reasons(info, health), *unasked, *unshown]
    verdicts = [check.verdict for check in checks]
    if reasons or not coverage.met:
        verdicts.append("unknown")
    verdict = worst(verdicts)
    # No drain says where the log of an imported history ends.
    unread = info.imported or any(spec.linearizability for spec in left_out)
    return {
        "schema": run_report.SCHEMA,
        "verdict": verdict,
        "sentence": run_report.sentence(
            verdict,
            checks,
            durable,
            coverage,
            reasons,
            unavailable,
            not_fired,
            damage.unmet(faults, met),
            evidence.touched.names(),
            [spec.name for spec in left_out],
            info.imported,
            None if early is None else early.said,
        ),
        **({} if early is None else {"ended_early": early.as_json(confirmed=confirmed)}),
        "reasons": reasons,
        "checkers": {check.name: run_report.check_json(check) for check in checks}
        | {"coverage": run_report.coverage_json(coverage)},
        "durability": durable,
        "linearizability": run_report.linearizability(checks, left_out=unread),
        "coverage": coverage.as_json(),
        "faults": [damage.as_json(fault, met) for fault in faults],
        "unavailable": unavailable,
        "not_fired": not_fired,
        "history": {"lines": health.lines, "torn": health.torn},
    }


def _join_witnesses(
    session: SparkSession,
    run_dir: Place,
    checks: Sequence[CheckResult],
    faults: Sequence[Fault],
    evidence: Evidence,
) -> None:
    witnesses = [row for check in checks for row in check.witnesses]
    lines = history_lines(session, run_dir / "history.jsonl", {op for row in witnesses for op in row.ops})
    places = {(row.p, row.offset) for row in witnesses if row.p is not None and row.offset is not None}
    holdings = replica_holdings(evidence.batches, places)
    for check in checks:
        run_report.join_witnesses(check, faults, lines, holdings)
