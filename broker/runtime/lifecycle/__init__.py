"""A broker's registration in ZooKeeper, its controlled shutdown, and the detector of dead peers.

Events of the session come in from `broker.zk`; changes go out to metadata, replicas and controller.
"""
