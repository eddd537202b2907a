"""Schedulers with which `priced` is compared."""
