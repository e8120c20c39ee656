"""groups: producers, and members of consumer groups that join, sync, poll, commit, leave, fall silent and come back.

Each request of a member is an operation. The final phase reads back what every group has committed, from every broker
as its coordinator. Uses append-poll's producers, drain and final phase; what a member does next is `member`, which
partitions it gets is `assignors`.
"""
