"""What parts of a campaign share: positions on the ladder, ports, what people decide."""
