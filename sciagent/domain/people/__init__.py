"""People who use a ledger through the server: their roles, and who did an act."""
