"""Laws that are fitted to what campaigns measured: entries in the ledger, and predictions from them."""
