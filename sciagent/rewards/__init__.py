"""Rewards as pure functions of what the ledger holds: no database and no model is used here."""
