"""Which administrative requests are right: topics, partitions, settings. Pure.

Decoded requests and the cluster as known come in from `broker.runtime.admin`; refusals with Kafka's codes, or what to
write, go out.
"""
