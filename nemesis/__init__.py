"""What hurts the cluster: faults, what they are aimed at, when they come, and how they are taken back."""
