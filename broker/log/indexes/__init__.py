"""The offset and the time index of a segment: sparse, sorted, checked, rebuilt.

Batches come in from the segment; positions go out. Source: org.apache.kafka.storage.internals.log.OffsetIndex,
TimeIndex.
"""
