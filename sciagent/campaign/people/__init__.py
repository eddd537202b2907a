"""What people do to a campaign: steer, amend, import, verify, explain, compare."""
