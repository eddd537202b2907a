"""Makers of the answers that stand in `sciagent.domain.answers`, from what the ledger holds."""
