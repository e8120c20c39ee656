"""Findings and figures, the jobs that collect them, the catalogue of checkers, and one verdict from all.

Uses `history`. Lazy findings come in from the families; verdicts with reasons, counts and witness rows go out. The
catalogue names for each checker what it must have seen to say valid.
"""
