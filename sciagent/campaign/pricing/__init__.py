"""The scheduler `priced` in a campaign: its data from the ledger, its purchases, forecasts and audit."""
