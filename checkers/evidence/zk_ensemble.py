"""The transaction logs of all ZooKeeper servers together: which changes were made, and what of them may be missing.

A server logs what its leader proposes before it is committed. What a leader could not have committed any more stays in
its log, also once it follows the next one, which sends it a snapshot then and has it cut nothing (LearnerHandler:
"Cannot send TRUNC"). Who logged the first transaction of an epoch had all that its leader had before, and no more: it
was sent the rest, or cut what was beyond (syncFollower), so that the logs of those say where the epoch before ended.
Of an epoch without a transaction those say it whose currentEpoch it is, which is written once all this has been
(Learner.syncWithLeader).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from checkers.evidence.zk_txnlog import Change, TxnLog, gaps

_COUNTER = 0xFFFFFFFF
_ITS_OWN = "/zookeeper/"
"""Znodes that ZooKeeper makes without a transaction."""


def merged(logs: Mapping[str, TxnLog]) -> tuple[list[tuple[str, Change]], list[str]]:
    """(every change, in order, with the server whose log has it; why transactions may be missing) of all servers' logs.

    A server that was away may be sent a snapshot, and lacks what that held; one that is away in the end lacks what came
    since. So one log without a gap is enough only where no other goes on beyond it; else all of them together must have
    no gap, and be read to their ends. Which ephemerals a session had all logs say together. Where all of them were sent
    the end of an epoch as a snapshot, the next one's transactions follow without a gap: then snapshots, and versions of
    znodes, say what no log has.
    """
    undone, doubtful = _uncommitted(logs)
    told: dict[int, tuple[str, list[Change]]] = {}
    for name, log in logs.items():
        of_one: dict[int, list[Change]] = {}
        for change in log.changes:
            of_one.setdefault(change.zxid, []).append(change)
        for zxid, changes in of_one.items():
            if zxid not in undone:
                told.setdefault(zxid, (name, changes))
    found = list(_with_sessions_ended([(name, change) for _, (name, of) in sorted(told.items()) for change in of]))
    zxids = [zxid for log in logs.values() for zxid in log.zxids]
    last = max(zxids, default=0)
    unlogged = [*doubtful, *_in_snapshots_only(logs, zxids), *_versions_missing([change for _, change in found])]
    if any(not log.problems and max(log.zxids, default=0) == last for log in logs.values()):
        return found, unlogged
    unread = [f"{name}: {problem}" for name, log in logs.items() for problem in log.unread]
    if not logs or unread:
        return found, [f"{name}: {problem}" for name, log in logs.items() for problem in log.problems]
    return found, [*gaps(zxids), *unlogged]


def _uncommitted(logs: Mapping[str, TxnLog]) -> tuple[set[int], list[str]]:
    """(transactions that were logged and never committed, why that is not known of some): those beyond the end of their
    epoch.
    """
    every = {zxid for log in logs.values() for zxid in log.zxids}
    last = max(every, default=0)
    undone: set[int] = set()
    doubtful = [
        f"{name}: it does not say of which epoch it was last, so that what its log lacks may never have been committed"
        for name, log in logs.items()
        if log.epoch is None and len(logs) > 1 and max([*log.zxids, *log.snapshots], default=0) < last
    ]
    begins = {zxid - 1 for zxid in every if zxid & _COUNTER == 1}
    newest = max((log.epoch for log in logs.values() if log.epoch is not None), default=0) << 32
    if newest > last:  # It has no transaction. Of an earlier one without any nobody knows whether a majority followed.
        begins.add(newest)
    for begin in sorted(begins):
        begun = {
            name: log
            for name, log in logs.items()
            if begin + 1 in log.zxids or (begin == newest > last and log.epoch == newest >> 32)
        }
        end, doubt = _end_before(begin, begun)
        beyond = {zxid for zxid in every if end < zxid < begin}
        if beyond and doubt:
            doubtful.append(doubt)
            continue
        undone |= beyond
    return undone, doubtful


def _end_before(begin: int, begun: Mapping[str, TxnLog]) -> tuple[int, str | None]:
    """(the last transaction that an epoch's leader had from before, why that is not known). begun: who followed it.

    It is the last one in the log of each who was sent no snapshot of more. What a snapshot for one that came late holds
    its name does not say: that is the epoch's begin, where there was no transaction yet. Nor is it known where one of
    them has more: a server that starts from a snapshot which it took as a candidate, of what it alone had logged, has
    that in its tree, and shows it, also once its log was cut (FileTxnSnapLog.truncateLog).
    """
    logged = {name: max((zxid for zxid in log.zxids if zxid < begin), default=0) for name, log in begun.items()}
    whole = [at for name, at in logged.items() if not any(at < zxid <= begin for zxid in begun[name].snapshots)]
    end = max(whole or logged.values(), default=0)
    for name, log in begun.items():
        if logged[name] > end:
            ends = f"where that of another who began the next epoch ends at 0x{end:x}"
            return end, f"{name}: its log goes on to 0x{logged[name]:x}, {ends}"
        for zxid in log.snapshots:
            if end < zxid < begin or (zxid == begin and not whole):
                held = f"{name}: a snapshot holds transactions up to 0x{zxid:x}"
                return end, f"{held}, which no log of who began the next epoch has"
    return end, None


def _with_sessions_ended(changes: Sequence[tuple[str, Change]]) -> Iterator[tuple[str, Change]]:
    """Each end of a session as the deletions of what was its own then. changes: in order."""
    owned: dict[int, dict[str, None]] = {}
    for name, change in changes:
        if change.op == "close":
            for nth, path in enumerate(owned.pop(change.session, {})):
                yield name, change._replace(op="delete", path=path, position=nth)
            continue
        if change.op == "create" and change.ephemeral:
            owned.setdefault(change.session, {})[change.path] = None
        elif change.op == "delete":
            for paths in owned.values():
                paths.pop(change.path, None)
        yield name, change


def _in_snapshots_only(logs: Mapping[str, TxnLog], zxids: Collection[int]) -> list[str]:
    """Reasons why transactions are missing that no gap shows: a snapshot ends with one that no log has."""
    logged = set(zxids)
    # A leader's epoch begins with no transaction, at counter 0.
    return [
        f"{name}: a snapshot holds transactions up to 0x{zxid:x}, which no log has"
        for name, log in logs.items()
        for zxid in log.snapshots
        if zxid & _COUNTER and zxid not in logged
    ]


def _versions_missing(changes: Sequence[Change]) -> list[str]:
    """The first reason why changes are missing that no gap shows: each change of a znode gives it its next version, and
    none is made twice. changes: in order.
    """
    versions: dict[str, int] = {}
    odd: list[str] = []
    for change in changes:
        known = versions.get(change.path)
        if change.op == "delete":
            versions.pop(change.path, None)
            continue
        version = change.version or 0
        if known is not None and change.op == "create":
            odd.append(f"{change.path} is made anew by zxid 0x{change.zxid:x}, and no transaction deleted it")
        elif known is None and change.op == "set" and not change.path.startswith(_ITS_OWN):
            odd.append(f"{change.path} is changed by zxid 0x{change.zxid:x}, and no transaction made it")
        elif known is not None and version != known + 1:
            odd.append(f"{change.path} has version {version} by zxid 0x{change.zxid:x}, and had {known} before")
        versions[change.path] = version
    more = f" (and {len(odd) - 1} more)" if len(odd) > 1 else ""
    return [f"transactions are missing: {odd[0]}{more}"] if odd else []
