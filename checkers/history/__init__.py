"""A run folder's history, as tables: `load` reads it, `schema` says its columns, `run_info` what was planned.

Files come in; DataFrames go out. docs/history-format.md is the contract.
"""
