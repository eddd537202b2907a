"""The `priced` scheduler over a campaign's ledger."""
