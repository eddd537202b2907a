"""Builds the answers of `sciagent.domain.answers` from the ledger."""
