"""Judges a run while it goes on: what was recorded so far, by the checkers that may (`checkers.verdicts.prefixes`).

Uses the tables and black-box families of the checkers, and none of the evidence of nodes, which is copied later. What
a run has recorded comes in; what is already wrong with it comes out, a line of JSON at a time.
"""
