"""Reports on campaigns; they only read the ledger."""
