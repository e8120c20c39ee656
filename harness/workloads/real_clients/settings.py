"""What all applications of a run have in common, and how librdkafka is set up for it.

Decides librdkafka's properties. Must not know threads or the history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.clients.connection import Address
from harness.workloads.real_clients.options import AT_MOST_ONCE, EXACTLY_ONCE, STATIC, Options


@dataclass(frozen=True, slots=True)
class Settings:
    """topic, out: names; out takes what is made of the topic under exactly-once. acks: as in run files, -1 is all."""

    bootstrap: Sequence[Address]
    topic: str
    out: str
    partitions: int
    record_bytes: int
    request_timeout_ms: int
    acks: int
    seed: int
    options: Options

    @property
    def servers(self) -> str:
        """As clients want them."""
        return ",".join(f"{host}:{port}" for host, port in self.bootstrap)

    @property
    def heartbeat_ms(self) -> int:
        """Of members."""
        return max(100, self.options.session_timeout_ms // 5)

    @property
    def poll_interval_ms(self) -> int:
        """After which a member that does not poll leaves its group."""
        return max(self.options.session_timeout_ms, self.options.max_poll_interval_ms)

    @property
    def idempotent(self) -> bool:
        """Whether plain producers are: they repeat requests, and promise the order of what they have under way."""
        return self.options.promise != AT_MOST_ONCE

    @property
    def group(self) -> str:
        """The group of every member."""
        return f"{self.topic}-app"

    def transactional_id(self, member: int) -> str:
        """Of the producer of one member, under exactly-once."""
        return f"{self.topic}-app-{member}"

    def instance(self, member: int) -> str | None:
        """`group.instance.id` of a member; None of a dynamic one."""
        return f"{self.group}-{member}" if self.options.membership == STATIC else None

    def of_instance(self, member: int) -> dict[str, object]:
        """The property of a static member, for either library."""
        instance = self.instance(member)
        return {} if instance is None else {"group.instance.id": instance}

    def _common(self, client_id: str) -> dict[str, object]:
        return {
            "bootstrap.servers": self.servers,
            "client.id": client_id,
            "allow.auto.create.topics": False,
            "socket.connection.setup.timeout.ms": 2000,
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 1000,
            "log_level": 0,
            # What an error does to a call or a record is what the application sees of it.
            "error_cb": lambda _error: None,
        }

    def of_producer(self, number: int) -> dict[str, object]:
        """A plain producer: without retries under at-most-once, else idempotent."""
        retries: dict[str, object] = {"enable.idempotence": True} if self.idempotent else {"retries": 0}
        del_ms = self.options.delivery_timeout_ms if self.idempotent else self.request_timeout_ms
        return {
            **self._common(f"highwater-producer-{number}"),
            **retries,
            "acks": self.acks,
            "request.timeout.ms": min(self.request_timeout_ms, del_ms),
            "delivery.timeout.ms": del_ms,
            "linger.ms": 5,
        }

    def of_transactional(self, member: int) -> dict[str, object]:
        """The producer of one member under exactly-once."""
        return {
            **self._common(f"highwater-processor-{member}"),
            "transactional.id": self.transactional_id(member),
            "transaction.timeout.ms": self.options.delivery_timeout_ms,
            "request.timeout.ms": min(self.request_timeout_ms, self.options.delivery_timeout_ms),
            "delivery.timeout.ms": self.options.delivery_timeout_ms,
            "linger.ms": 5,
        }

    def of_consumer(self, member: int) -> dict[str, object]:
        """A member that commits by itself, and begins with the first record where nothing is committed."""
        return {
            **self._common(f"highwater-member-{member}"),
            "group.id": self.group,
            **self.of_instance(member),
            "session.timeout.ms": self.options.session_timeout_ms,
            "heartbeat.interval.ms": self.heartbeat_ms,
            "max.poll.interval.ms": self.poll_interval_ms,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": self.options.assignor,
            "isolation.level": "read_committed" if self.isolation else "read_uncommitted",
            "check.crcs": True,
            "fetch.wait.max.ms": 100,
        }

    @property
    def isolation(self) -> int:
        """Of members, as the history has it."""
        return int(self.options.promise == EXACTLY_ONCE)
