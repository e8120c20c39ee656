"""A read-only view of a store of runs in the browser: `highwater serve`.

Decides what of a run is shown and to whom. Writes nothing, and judges nothing: what it shows stands in the runs' files.
"""
