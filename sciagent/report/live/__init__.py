"""A campaign while it runs: metrics and views that refresh."""
