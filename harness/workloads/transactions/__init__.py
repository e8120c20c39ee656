"""transactions: producers with transactional ids, processors that consume, transform and produce, plain sends, and
polls under both isolation levels. Uses clients, and of append-poll its plain client, drain and rotation; operations go
to the history. Must not know faults or checkers.
"""
