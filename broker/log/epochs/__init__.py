"""Which leader epoch began where: in memory and in `leader-epoch-checkpoint`.

Uses `files`. Epochs and offsets of appends and truncations come in; an epoch's end offset, and the text of the file
when it is due, go out.

Source: org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache.
"""
