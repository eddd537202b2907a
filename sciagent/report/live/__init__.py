"""Views of running campaigns: metrics and snapshots."""
