"""The Spark session and its tables. Uses no other part of the checkers."""
