"""This broker's replicas: their registry, their roles, ISR changes, what is appended, and the controller's orders for
them.

The rules are in `broker.core.replication`, the files behind the `Log` port. Orders come in from the controller,
appends and fetches from the rooms above.
"""
