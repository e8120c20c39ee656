"""How Kafka's Java client is set up for an application.

Decides its properties. Must not know processes or the history. What one library has and the other too is the same as in
`settings`.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.workloads.real_clients.ports import BATCH
from harness.workloads.real_clients.settings import Settings

CALL_S = 5.0
_ASSIGNORS = {"range": "RangeAssignor", "cooperative-sticky": "CooperativeStickyAssignor"}

Properties = Mapping[str, object]


def _common(settings: Settings, client_id: str) -> dict[str, object]:
    return {
        "bootstrap.servers": settings.servers,
        "client.id": client_id,
        "socket.connection.setup.timeout.ms": 2000,
        "reconnect.backoff.max.ms": 500,
        "metadata.max.age.ms": 1000,
        "request.timeout.ms": settings.request_timeout_ms,
    }


def _of_any_producer(settings: Settings, client_id: str, delivery_ms: int) -> dict[str, object]:
    linger_ms = 5
    return {
        **_common(settings, client_id),
        "request.timeout.ms": min(settings.request_timeout_ms, delivery_ms - linger_ms),
        "delivery.timeout.ms": delivery_ms,
        "linger.ms": linger_ms,
    }


def of_producer(settings: Settings, number: int) -> Properties:
    """A plain producer: without retries under at-most-once, else idempotent."""
    delivery_ms = settings.options.delivery_timeout_ms if settings.idempotent else settings.request_timeout_ms
    return {
        **_of_any_producer(settings, f"highwater-producer-{number}", delivery_ms),
        "enable.idempotence": settings.idempotent,
        **({} if settings.idempotent else {"retries": 0}),
        "acks": str(settings.acks),
        # One partition whose leader is not known keeps those behind it waiting: not for long.
        "max.block.ms": 1000,
    }


def of_transactional(settings: Settings, member: int) -> Properties:
    """The producer of one member under exactly-once."""
    delivery_ms = settings.options.delivery_timeout_ms
    return {
        **_of_any_producer(settings, f"highwater-processor-{member}", delivery_ms),
        "transactional.id": settings.transactional_id(member),
        "transaction.timeout.ms": delivery_ms,
        "max.block.ms": int(CALL_S * 1000),
    }


def of_consumer(settings: Settings, member: int) -> Properties:
    """A member that commits by itself, and begins with the first record where nothing is committed."""
    options = settings.options
    return {
        **_common(settings, f"highwater-member-{member}"),
        "group.id": settings.group,
        **settings.of_instance(member),
        "session.timeout.ms": options.session_timeout_ms,
        "heartbeat.interval.ms": settings.heartbeat_ms,
        "max.poll.interval.ms": settings.poll_interval_ms,
        "default.api.timeout.ms": max(int(CALL_S * 1000), settings.request_timeout_ms),
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "allow.auto.create.topics": False,
        "partition.assignment.strategy": f"org.apache.kafka.clients.consumer.{_ASSIGNORS[options.assignor]}",
        "isolation.level": "read_committed" if settings.isolation else "read_uncommitted",
        "check.crcs": True,
        "fetch.max.wait.ms": 100,
        "max.poll.records": BATCH,
    }
