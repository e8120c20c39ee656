"""A broker's registration in ZooKeeper, its controlled shutdown, and the detector of dead peers.

Sessions come in from `broker.zk`; what changes goes to the metadata, the replicas and the controller.
"""
