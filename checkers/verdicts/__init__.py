"""Findings, the jobs that make them, the catalogue of anomalies, and one verdict from all."""
