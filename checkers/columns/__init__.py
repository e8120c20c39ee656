"""Passes over long tables by Spark's Python workers, column by column, where SQL would go row by row.

Uses nothing of the checkers but where places are and what workers are sent. Knows no rule.
"""
