"""Commands of people on a campaign: steer, amend, import, verify, explain, compare."""
