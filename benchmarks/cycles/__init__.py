"""The family of transactional cycles at size: made histories of transactions with planted cycles, and their judgement.

Stands beside `benchmarks.checkers`, whose writer of tables and measure of a process tree it uses.
"""
