"""Jobs, leases, attempts, what they cost, and the workers that take them."""
