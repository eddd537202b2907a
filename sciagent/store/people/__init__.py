"""People in the ledger: accounts, roles, sessions and tokens, and the chain of what people did."""
