"""What notebooks, scripts and the command line call: a campaign, a ledger, and the tables they give back."""
