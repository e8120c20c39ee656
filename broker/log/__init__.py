"""Replica logs on disk, in Kafka's own format: from a log dir's files up to the manager of all logs of a broker.

Each floor knows those below it alone: files, indexes and epochs, segments, durability, the state of one log with
the parts that read, cut and swap, the log that joins them, recovery, `manager` with the parts of the log manager, then
the cleaner and `log_manager`. Batches and settings come in from `broker.server`, behind the `Log` and `LogStore` ports
of the runtime; chunks of files, ends and errors of `broker.model` go out.
"""
