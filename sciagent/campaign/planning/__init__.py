"""What a campaign would cost and find, before it runs."""
