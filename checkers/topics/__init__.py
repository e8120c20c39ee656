"""Checkers of topics that are deleted and made anew under their names: what outlives a deletion, and what does not.

The black-box families for workloads that name them; they rest on the history alone. What is recorded of one life of a
topic the other families judge as a topic of its own.
"""
