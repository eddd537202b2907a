"""Commands with which people steer a campaign."""
