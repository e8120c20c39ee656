"""What clients saw: one module per anomaly family, each a pure function of the history's tables."""
