"""Coordination of consumer groups: membership, and the offsets that groups commit.

Requests of members come in, replies leave at once or when the group has come together; what must survive goes as
records into `__consumer_offsets` through `coordinators.appends` and is loaded from there by the broker that leads the
partition. The rules are `core.group`. Uses replicas and metadata, knows neither logs nor sockets.
Source: kafka.coordinator.group.GroupCoordinator, GroupMetadataManager.
"""
