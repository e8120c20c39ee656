"""Which leader epoch began where: in memory and in `leader-epoch-checkpoint`.

Source: org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache.
"""
