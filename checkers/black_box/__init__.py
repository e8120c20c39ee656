"""What clients saw: one module for each family of anomalies, each a pure function of the history's tables.

Uses `verdicts`, `allowances`, `evidence` and what is below them. DataFrames of sends, polls and requests come in;
findings and figures, lazily, go out. Source: jepsen.tests.kafka; docs/checkers.md defines each anomaly.

The total order of a partition's records is in two modules: `offsets` says whether each offset has one value, `order`
whether the values, in order of their offsets, respect real time.
"""
