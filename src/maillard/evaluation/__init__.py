"""Off-policy evaluation: what another policy would have earned, from a log with propensities."""
