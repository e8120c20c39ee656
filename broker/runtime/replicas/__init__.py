"""This broker's replicas: their registry, their roles, ISR changes, appends, and the controller's requests for them.

The rules are in `broker.core.replication`, the files behind the `Log` port. LeaderAndIsr and StopReplica come in from
the controller, appends and fetches from the rooms above.
"""
