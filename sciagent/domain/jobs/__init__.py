"""Jobs: their states, resources and budget, and the rules for retries."""
