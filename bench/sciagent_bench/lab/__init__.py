"""Schedulers replayed where people do the terminal rung, and answer weeks later."""
