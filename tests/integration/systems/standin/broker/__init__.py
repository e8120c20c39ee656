"""Stands in for the broker where a test is about how the harness handles its process."""
