"""Spark jobs that judge a run: is every acknowledged record there, and was nothing shown before it was committed?

Imports neither broker nor lab: the documented formats are the contract. A run's folder comes in (history, evidence of
the nodes); results.json and series.json go out, with verdict, counts and witnesses.
"""
