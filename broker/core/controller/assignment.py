"""Where a new partition's replicas go. Pure: the random start is the caller's.

Leaders go round the brokers; the followers of a partition follow with a shift that grows with every round, so that the
partitions of a lost broker spread over the rest. With racks, brokers are lined up rack by turn, and a partition takes a
second replica in a rack only when every rack has one. Replicas of a partition are on different brokers.
Source: org.apache.kafka.admin.AdminUtils.assignReplicasToBrokers; KIP-36.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from broker.model.ids import BrokerId

PARTITIONS_MAX = 10_000
"""Of one topic: its assignment is one znode."""
REPLICAS_MAX = 50_000


class AssignmentRefused(Exception):
    """A placement that cannot be; `kind` says which error it is for the client, the text is Kafka's."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        """partitions, replication-factor, replica-assignment"""


def assign(
    racks: Mapping[BrokerId, str | None],
    partitions: int,
    replication_factor: int,
    start_index: int,
    shift: int,
    first_partition: int = 0,
) -> dict[int, tuple[BrokerId, ...]]:
    """Replicas by partition index, [first_partition, first_partition + partitions). Raises AssignmentRefused.

    Racks count when all brokers have one.
    """
    if partitions <= 0:
        raise AssignmentRefused("partitions", "Number of partitions must be larger than 0.")
    check_size(first_partition + partitions, replication_factor)
    if replication_factor <= 0:
        raise AssignmentRefused("replication-factor", "Replication factor must be larger than 0.")
    if replication_factor > len(racks):
        raise AssignmentRefused(
            "replication-factor",
            f"Replication factor: {replication_factor} larger than available brokers: {len(racks)}.",
        )
    with_racks = {broker: rack for broker, rack in racks.items() if rack is not None}
    rack_aware = len(with_racks) == len(racks)
    line = alternate_racks(with_racks) if rack_aware else sorted(racks)
    rack_of = with_racks if rack_aware else {broker: str(broker) for broker in line}
    shift_step = len(set(rack_of.values())) if rack_aware else 1
    assigned: dict[int, tuple[BrokerId, ...]] = {}
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % len(line) == 0:
            shift += 1
        first = (partition + start_index) % len(line)
        assigned[partition] = _replicas(line, rack_of, first, shift * shift_step, replication_factor)
    return assigned


def _replicas(
    line: Sequence[BrokerId], rack_of: Mapping[BrokerId, str], first: int, shift: int, replication_factor: int
) -> tuple[BrokerId, ...]:
    """The leader, then candidates in shifted order, a used rack passed over while an unused one remains."""
    chosen = [line[first]]
    used_racks = {rack_of[line[first]]}
    rack_count = len(set(rack_of.values()))
    candidates = _candidates(line, first, shift)
    while len(chosen) < replication_factor:
        broker = next(candidates)
        if broker not in chosen and (rack_of[broker] not in used_racks or len(used_racks) == rack_count):
            chosen.append(broker)
            used_racks.add(rack_of[broker])
    return tuple(chosen)


def _candidates(line: Sequence[BrokerId], first: int, shift: int) -> Iterator[BrokerId]:
    """All brokers but the first, from the shift on, again and again."""
    others = len(line) - 1
    position = 0
    while True:
        yield line[(first + 1 + (shift + position) % others) % len(line)]
        position += 1


def alternate_racks(racks: Mapping[BrokerId, str]) -> list[BrokerId]:
    """Brokers so ordered that neighbours are in different racks as long as that is possible."""
    queues = [
        sorted((broker for broker, rack in racks.items() if rack == name), reverse=True)
        for name in sorted(set(racks.values()))
    ]
    line: list[BrokerId] = []
    while any(queues):
        line.extend(queue.pop() for queue in queues if queue)
    return line


def check_size(partitions: int, replication_factor: int) -> None:
    """Raises AssignmentRefused where a topic's assignment would not fit in a znode, of a million bytes."""
    if partitions > PARTITIONS_MAX:
        raise AssignmentRefused(
            "partitions", f"Number of partitions must be at most {PARTITIONS_MAX}, but it is {partitions}."
        )
    if partitions * replication_factor > REPLICAS_MAX:
        raise AssignmentRefused(
            "partitions",
            f"Number of replicas of all partitions together must be at most {REPLICAS_MAX}, "
            f"but it is {partitions * replication_factor}.",
        )


def check_manual(assignment: Mapping[int, Sequence[BrokerId]], known: Sequence[BrokerId]) -> None:
    """Raises AssignmentRefused unless partitions are 0…n−1 with equally many, different, known replicas each."""
    if sorted(assignment) != list(range(len(assignment))):
        raise AssignmentRefused("replica-assignment", "partitions should be a consecutive 0-based integer sequence")
    if len({len(replicas) for replicas in assignment.values()}) != 1:
        raise AssignmentRefused("replica-assignment", "All partitions should have the same number of replicas")
    check_size(len(assignment), len(assignment[0]))
    for partition, replicas in sorted(assignment.items()):
        if not replicas:
            raise AssignmentRefused(
                "replica-assignment", f"Cannot have replication factor of 0 for partition id {partition}."
            )
        listed = ", ".join(map(str, replicas))
        if len(set(replicas)) != len(replicas):
            raise AssignmentRefused(
                "replica-assignment",
                f"Duplicate brokers not allowed in replica assignment: {listed} for partition id {partition}.",
            )
        if not set(replicas) <= set(known):
            raise AssignmentRefused(
                "replica-assignment",
                f"Some brokers specified for partition id {partition} are not available. Specified brokers: {listed}, "
                f"available brokers: {', '.join(map(str, sorted(known)))}.",
            )
