"""The web pages of campaigns: all of them, one live, its candidates, and a chemist's decisions."""
