"""The Spark session and how its tables are made, kept and read. The lowest floor of the checkers.

Uses no other part of them. A master and a folder come in; a session, and DataFrames backed by Parquet, go out.
"""
