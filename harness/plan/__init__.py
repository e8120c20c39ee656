"""A run, as described by its run file: parsed, checked, frozen, and written back.

TOML text comes in; a Plan goes out, or PlanError with line, key, value and what would be right. Does no other I/O.
"""
