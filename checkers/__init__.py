"""Spark jobs that judge a run: history and evidence in, verdict, counts and witnesses out."""
