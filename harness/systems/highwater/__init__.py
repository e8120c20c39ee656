"""highwater's brokers over ZooKeeper: their configuration, their life on nodes, and what of them is evidence.

`kind.Highwater` is the registered kind; it opens a `HighwaterSystem` for each run.
"""
