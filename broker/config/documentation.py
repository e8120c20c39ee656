"""What each setting does, in a sentence or two, for DescribeConfigs. Broker settings by their names; a topic's setting
has the text of the broker's setting that gives its default, or one of its own. Pure.
"""

from __future__ import annotations

from broker.config.table import INERT_TOPIC_SETTINGS, TOPIC_SETTINGS

_BROKER = {
    "broker.id": "The number by which the cluster knows this broker. -1 lets ZooKeeper give it one.",
    "broker.rack": "Where the broker stands. New replicas are spread over racks.",
    "listeners": "The addresses on which the broker accepts connections.",
    "advertised.listeners": "The addresses that clients and other brokers are told. Unset: those of listeners.",
    "log.dirs": "The folders in which partitions are kept, separated by commas. Unset: the one of log.dir.",
    "log.dir": "The folder in which partitions are kept, where log.dirs is not set.",
    "zookeeper.connect": "ZooKeeper's servers as host:port, separated by commas; a folder may follow.",
    "zookeeper.session.timeout.ms": "After so long without a sign of life ZooKeeper ends the broker's session.",
    "zookeeper.connection.timeout.ms": "How long the first connection to ZooKeeper may take.",
    "num.partitions": "How many partitions a topic gets that is created without a number.",
    "default.replication.factor": "How many replicas a topic's partitions get that is created without a number.",
    "auto.create.topics.enable": "Whether a topic is created when a client asks for one that is not there.",
    "delete.topic.enable": "Whether topics can be deleted.",
    "auto.leader.rebalance.enable": "Whether leaderships are given back to the preferred replicas from time to time.",
    "leader.imbalance.check.interval.seconds": "How often the controller looks for leaderships to give back.",
    "leader.imbalance.per.broker.percentage": "How many percent of a broker's preferred partitions others may "
    "lead before leaderships are given back.",
    "replication.quota.window.num": "Over how many windows the rate of throttled replication is averaged.",
    "replication.quota.window.size.seconds": "The length of a window of that average.",
    "alter.log.dirs.replication.quota.window.num": "Over how many windows the rate of moves "
    "between log dirs is averaged.",
    "alter.log.dirs.replication.quota.window.size.seconds": "The length of a window of that average.",
    "min.insync.replicas": "How many replicas must be in sync for a write with acks=all to be accepted, and for the "
    "watermark to rise.",
    "unclean.leader.election.enable": "Whether a replica may lead that lacks records, where no other is left.",
    "replica.lag.time.max.ms": "A follower that has not caught up for so long leaves the in-sync replicas.",
    "replica.fetch.wait.max.ms": "How long a leader may let a follower's fetch wait for records.",
    "replica.fetch.min.bytes": "For how many bytes a leader lets a follower's fetch wait.",
    "replica.fetch.max.bytes": "How many bytes of a partition a follower asks for at once.",
    "replica.fetch.response.max.bytes": "How many bytes a follower asks for in one fetch.",
    "replica.fetch.backoff.ms": "How long a follower waits after an error before it fetches a partition again.",
    "replica.selector.class": "Which replica consumers are sent to that say in which rack they are.",
    "replica.socket.timeout.ms": "How long a follower waits for the response to a fetch beyond the fetch's own wait.",
    "replica.high.watermark.checkpoint.interval.ms": "How often watermarks are written to disk.",
    "replica.truncation": "By what a follower cuts its log: its leader's epochs, or its own watermark as "
    "before KIP-101.",
    "controller.socket.timeout.ms": "How long the controller waits for a broker's response.",
    "controlled.shutdown.enable": "Whether a broker hands its leaderships over before it stops.",
    "controlled.shutdown.max.retries": "How often it tries to.",
    "controlled.shutdown.retry.backoff.ms": "How long it waits between two tries.",
    "controlled.shutdown.farewell.ms": "How long a broker that stops goes on telling clients who leads now.",
    "failure.suspicion.enable": "Whether a broker whose process is gone is taken for dead before its session ends.",
    "inter.broker.addresses.only": "Whether requests that only brokers send are refused from addresses at "
    "which no broker is registered.",
    "request.timeout.ms": "How long a broker waits for another's response.",
    "socket.request.max.bytes": "The largest request that is read. A larger one closes its connection.",
    "socket.send.buffer.bytes": "The size of a connection's send buffer. -1: as the system chooses.",
    "socket.receive.buffer.bytes": "The size of a connection's receive buffer. -1: as the system chooses.",
    "connections.max.idle.ms": "A connection on which nothing moved for so long is closed.",
    "fetch.max.bytes": "The most bytes that one fetch of a consumer is sent, but for a first batch that is larger.",
    "max.incremental.fetch.session.cache.slots": "How many incremental fetch sessions are kept.",
    "message.max.bytes": "The largest batch that is accepted from a producer, in bytes as it is sent.",
    "compression.type": "The codec with which batches are stored; producer keeps each batch as it was sent.",
    "compression.gzip.level": "The level of gzip, where the broker compresses.",
    "compression.lz4.level": "The level of lz4, where the broker compresses.",
    "compression.zstd.level": "The level of zstd, where the broker compresses.",
    "log.message.timestamp.type": "Whether records keep their producer's time, or get that of the append.",
    "log.message.timestamp.after.max.ms": "How far a batch's time may lie in the future.",
    "log.segment.bytes": "The size at which a new segment is begun.",
    "log.roll.ms": "The age at which a new segment is begun. Comes before log.roll.hours.",
    "log.roll.hours": "The age at which a new segment is begun, in hours.",
    "log.roll.jitter.ms": "The most that is taken off that age at random. Comes before log.roll.jitter.hours.",
    "log.roll.jitter.hours": "The most that is taken off that age at random, in hours.",
    "log.retention.bytes": "A partition keeps no more than this beside its newest segment. -1: any number.",
    "log.retention.ms": "How long records are kept. Comes before log.retention.minutes. -1: for ever.",
    "log.retention.minutes": "How long records are kept, in minutes. Comes before log.retention.hours.",
    "log.retention.hours": "How long records are kept, in hours.",
    "log.retention.check.interval.ms": "How often the broker looks for segments to delete.",
    "log.cleanup.policy": "delete removes old segments, compact all records of a key but the newest. Both may be set.",
    "log.cleaner.enable": "Whether this broker compacts logs.",
    "log.cleaner.threads": "How many logs are compacted at a time, each in a process of its own.",
    "log.cleaner.backoff.ms": "How often the broker looks for a log to compact.",
    "log.cleaner.dedupe.buffer.size": "The memory for keys of all compactions together, in bytes.",
    "log.cleaner.io.buffer.load.factor": "How full that memory may become.",
    "log.cleaner.io.buffer.size": "The memory for reading and writing of all compactions together, in bytes.",
    "log.cleaner.io.max.bytes.per.second": "How much all compactions together may read and write.",
    "log.cleaner.min.cleanable.ratio": "Which part of a log must be uncompacted before it is compacted.",
    "log.cleaner.delete.retention.ms": "How long the mark of a deleted key is kept.",
    "log.cleaner.min.compaction.lag.ms": "How long a record stays uncompacted at least.",
    "log.cleaner.max.compaction.lag.ms": "How long a record stays uncompacted at most.",
    "log.index.interval.bytes": "After how many bytes of a segment its index gets an entry.",
    "log.index.size.max.bytes": "The most bytes of a segment's index.",
    "log.flush.interval.messages": "After how many records a log is flushed to disk.",
    "log.flush.interval.ms": "How long records may wait for a flush. Unset: as the system writes them.",
    "flush.policy": "group-commit counts a record as replicated once it is on disk; interval goes by flush.messages "
    "and flush.ms.",
    "log.flush.offset.checkpoint.interval.ms": "How often it is noted up to where logs are flushed.",
    "log.flush.start.offset.checkpoint.interval.ms": "How often it is noted where logs begin.",
    "log.segment.delete.delay.ms": "How long the files of a deleted segment stay.",
    "producer.id.expiration.ms": "How long an idle producer's last sequence numbers are remembered.",
    "producer.id.expiration.check.interval.ms": "How often the broker looks for producers to forget.",
    "offsets.topic.num.partitions": "How many partitions __consumer_offsets is created with.",
    "offsets.topic.replication.factor": "How many replicas __consumer_offsets is created with.",
    "offsets.topic.segment.bytes": "The segment size that __consumer_offsets is created with.",
    "offsets.topic.compression.codec": "The codec of batches in __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, "
    "4 zstd.",
    "offsets.load.buffer.size": "How many bytes are read at a time while a partition of __consumer_offsets is loaded.",
    "offsets.commit.required.acks": "The acks of a commit of offsets. Only -1 is safe.",
    "offsets.commit.timeout.ms": "How long a commit of offsets waits for the in-sync replicas.",
    "offsets.retention.minutes": "How long the offsets of a group without members are kept.",
    "offsets.retention.check.interval.ms": "How often the broker looks for offsets to forget.",
    "offset.metadata.max.bytes": "The longest text that a client may store with an offset.",
    "group.min.session.timeout.ms": "The shortest session time-out that a group's member may ask for.",
    "group.max.session.timeout.ms": "The longest session time-out that a group's member may ask for.",
    "group.initial.rebalance.delay.ms": "How long a new group waits for more members before its first rebalance.",
    "group.max.size": "How many members a group may have.",
    "transaction.max.timeout.ms": "The longest time-out that a transactional producer may ask for.",
    "transactional.id.expiration.ms": "How long an idle transactional id is remembered.",
    "transaction.state.log.num.partitions": "How many partitions __transaction_state is created with.",
    "transaction.state.log.replication.factor": "How many replicas __transaction_state is created with.",
    "transaction.state.log.min.isr": "The min.insync.replicas that __transaction_state is created with.",
    "transaction.state.log.segment.bytes": "The segment size that __transaction_state is created with.",
    "transaction.state.log.load.buffer.size": "How many bytes are read at a time while a partition of "
    "__transaction_state is loaded.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "How often the broker looks for transactions whose "
    "time is over.",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "How often the broker looks for transactional ids to "
    "forget.",
    "transaction.partition.verification.enable": "Whether transactional records are taken only while the coordinator "
    "confirms that their transaction is open.",
    "lab.event.log.topic.ids": "Topics whose partitions have their topic id in lab.event.log, because they are deleted "
    "and made anew under one name.",
    "lab.event.log": "The file for what the lab's checkers read of this broker. Unset: none is written.",
    "leader.replication.throttled.rate": "How many bytes a second this broker sends to throttled followers.",
    "follower.replication.throttled.rate": "How many bytes a second this broker fetches for throttled replicas.",
    "replica.alter.log.dirs.io.max.bytes.per.second": "How many bytes a second this broker moves between its log dirs.",
    "num.io.threads": "Has no effect: one thread serves all requests.",
    "num.network.threads": "Has no effect: one thread serves all connections.",
    "num.replica.fetchers": "Has no effect: one connection to each leader fetches all of its partitions.",
    "num.recovery.threads.per.data.dir": "Has no effect: the broker chooses how many logs are recovered at once.",
    "background.threads": "Has no effect: work in the background has threads of its own.",
}

_TOPIC = {
    "segment.ms": "The age at which a new segment is begun.",
    "segment.jitter.ms": "The most that is taken off that age at random.",
    "retention.ms": "How long records are kept. -1: for ever.",
    "flush.ms": "How long records may wait for a flush to disk.",
    "leader.replication.throttled.replicas": "The replicas to which leaders send at the throttled rate, as "
    "partition:broker, or * for all.",
    "follower.replication.throttled.replicas": "The replicas that fetch at the throttled rate, as "
    "partition:broker, or * for all.",
}


def of_broker_setting(name: str) -> str | None:
    """None for a setting that nobody has described."""
    return _BROKER.get(name)


def of_topic_setting(name: str) -> str | None:
    """None for a setting that nobody has described."""
    if name in INERT_TOPIC_SETTINGS:
        return f"Has no effect here: {INERT_TOPIC_SETTINGS[name].because}."
    if name in _TOPIC:
        return _TOPIC[name]
    setting = TOPIC_SETTINGS.get(name)
    return None if setting is None else _BROKER.get(setting.name)
