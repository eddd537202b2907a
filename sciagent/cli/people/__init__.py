"""Commands by which people steer a campaign."""
