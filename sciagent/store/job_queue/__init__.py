"""Jobs, leases, attempts and their costs, and the workers that run them."""
