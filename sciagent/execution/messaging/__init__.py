"""Brokers and notifications: how a worker hears that there is work."""
