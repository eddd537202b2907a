"""Schedulers: rules that decide which rung is run next on which candidate. They work on arrays, not on ledger rows."""
