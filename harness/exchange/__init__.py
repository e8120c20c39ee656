"""Histories from elsewhere, and ours for others: Jepsen's Kafka workload as EDN or JSON ⇄ a run's folder.

Uses the store's names (`harness.runs.store`) and the list of checkers of a workload; knows nodes, systems and faults
only as lines of a history. In comes a file that somebody else wrote, of which nothing is believed; out goes a run's
folder that `highwater analyze` judges, or a file of operations. Nothing here judges.
"""
