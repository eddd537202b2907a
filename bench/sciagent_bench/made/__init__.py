"""Materials Discovery Environments (MADE): stable crystals of one chemical system within a budget of oracle calls."""
