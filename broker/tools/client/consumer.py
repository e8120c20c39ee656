"""Reads topics: all partitions of them, some of them, or the part that a group gives it.

Joins the fetcher with a membership, and looks now and then whether there are new topics or partitions.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping
from typing import Final

from broker.tools.client.admin import TopicPartition
from broker.tools.client.cluster import Cluster
from broker.tools.client.errors import BrokerError, ToolError
from broker.tools.client.fetcher import Chunk, Fetcher, FetchSettings
from broker.tools.client.membership import GroupSettings, Membership

METADATA_MAX_AGE: Final = 300.0
_POLL: Final = 0.5
_NEW_TOPIC_POLL: Final = 1.0


class Consumer:
    """One of topics (names or a pattern) or positions. group: None to read without one. Not thread-safe.

    rebalanced_s: seconds that joining the group has taken so far.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: FetchSettings,
        *,
        topics: re.Pattern[str] | list[str] | None = None,
        positions: Mapping[TopicPartition, int | None] | None = None,
        group: GroupSettings | None = None,
        commit_interval: float | None = None,
        metadata_max_age: float = METADATA_MAX_AGE,
    ) -> None:
        """commit_interval: seconds between commits, None to commit nothing."""
        self.rebalanced_s = 0.0
        self._cluster = cluster
        self._fetcher = Fetcher(cluster, settings)
        self._topics = topics
        self._positions = positions
        self._membership = None if group is None else Membership(cluster, group, self._partition_counts)
        self._commit_interval = commit_interval
        self._commit_at = time.monotonic() + (commit_interval or 0.0)
        self._metadata_max_age = metadata_max_age
        self._counts: dict[str, int] = {}
        self._look_again_at = 0.0
        self._begun = False
        self._warned: set[str] = set()
        self.consumed: dict[TopicPartition, int] = {}
        """Next offset of each partition of which records were handed out; the caller moves it on."""

    def _partition_counts(self) -> dict[str, int]:
        """Topics that are wanted and there. One that is named is made, where brokers do that by themselves."""
        named = None if isinstance(self._topics, re.Pattern) else self._topics
        found = self._cluster.retry(
            "metadata", lambda deadline: self._cluster.metadata_once(named, deadline, create=named is not None)
        )
        counts = {}
        for topic in found.topics:
            name = topic.name or ""
            if isinstance(self._topics, re.Pattern) and not self._topics.fullmatch(name):
                continue
            if topic.error_code:
                error = BrokerError(topic.error_code)
                if name not in self._warned and named is not None:
                    self._warned.add(name)
                    print(f"WARN topic {name}: {error}", file=sys.stderr)
                continue
            counts[name] = len(topic.partitions)
        self._counts = counts
        missing = named is not None and len(counts) < len(named)
        self._look_again_at = time.monotonic() + (_NEW_TOPIC_POLL if missing else self._metadata_max_age)
        return counts

    def poll(self, timeout: float) -> list[Chunk]:
        """What has come, after up to timeout seconds; heartbeats, commits and rebalances go on meanwhile."""
        end = time.monotonic() + timeout
        while True:
            self._upkeep()
            left = end - time.monotonic()
            wait = max(min(left, _POLL, _POLL if self._membership is None else self._membership.wait()), 0.0)
            chunks = self._fetcher.poll(wait)
            if chunks or left <= 0:
                for chunk in chunks:
                    self.consumed.setdefault(chunk.where, chunk.start)
                return chunks

    def _upkeep(self) -> None:
        if not self._begun:
            self._begun = True
            self._begin()
        if self._membership is not None:
            if not self._membership.heartbeat():
                self._rejoin()
            elif self._commit_interval is not None and time.monotonic() >= self._commit_at:
                self.commit()
        if self._topics is not None and time.monotonic() >= self._look_again_at:
            before = dict(self._counts)
            if self._partition_counts() != before:
                self._changed()

    def _begin(self) -> None:
        if self._positions is not None:
            self._fetcher.assign(self._positions)
        elif self._membership is not None:
            self._rejoin()
        else:
            self._partition_counts()
            self._changed()

    def _changed(self) -> None:
        """There are other topics or partitions than before."""
        if self._membership is not None:
            self._rejoin()
            return
        known = self._fetcher.positions
        everything = [(topic, index) for topic, count in self._counts.items() for index in range(count)]
        self._fetcher.assign({where: known.get(where) for where in everything})

    def _rejoin(self) -> None:
        assert self._membership is not None
        self.commit()
        begun = time.monotonic()
        positions = self._membership.join()
        self.rebalanced_s += time.monotonic() - begun
        self.consumed = {}
        self._fetcher.assign(positions)

    def commit(self) -> None:
        """What the caller has come to, unless the settings say to commit nothing.

        Not what was found and not handed out, as an error or a signal may have come in between.
        """
        self._commit_at = time.monotonic() + (self._commit_interval or 0.0)
        if self._membership is not None and self._commit_interval is not None:
            self._membership.commit({**self._fetcher.positions, **self._fetcher.begun, **self.consumed})

    def close(self) -> None:
        """Commit, leave the group, close the connections."""
        try:
            if self._membership is not None:
                try:
                    self.commit()
                except ToolError as error:
                    print(f"WARN offsets were not committed: {error}", file=sys.stderr)
                self._membership.leave()
        finally:
            self._fetcher.close()
