"""Decoders and tables of what was collected from the nodes: segments, checkpoints, event logs, ZooKeeper's log.

Uses `history` and `spark`; the decoders are its own and import nothing of the broker. Files of a run's folder come
in; DataFrames of batches, events, znode versions and elections go out.
"""
