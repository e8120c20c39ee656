"""Whether a run saw enough to be called valid: work, faults that had effect, recoveries, evidence.

What is missing makes the verdict unknown, never valid.
"""
