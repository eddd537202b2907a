"""Jobs: their states, what they need, what they may cost, and when they are given up."""
