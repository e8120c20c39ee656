"""Administrative requests, from request to response: topics, partitions, settings, elections, reassignments.

The rules are in `broker.core.admin`. One conditional write to ZooKeeper does each of the simple ones; what needs the
controller's picture of the cluster goes through the controller.
"""
