"""Segments of one log: appended to, read, rolled, expired, deleted.

Staged batches come in from the log; chunks of files go out. Source:
org.apache.kafka.storage.internals.log.LogSegment, LogSegments.
"""
