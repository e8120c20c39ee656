"""Checkers of what administrators change and ask for: settings of topics, and how many partitions these have.

The black-box families for workloads that name them; they rest on the history alone.
"""
