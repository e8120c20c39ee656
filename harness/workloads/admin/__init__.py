"""admin: administrators who change and describe settings of topics, and add and count their partitions.

They have topics of their own; the run's topic has append-poll's load, final phase and drains. Operations go to the
history. Must not know faults or checkers.
"""
