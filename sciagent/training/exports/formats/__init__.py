"""The formats of exported data sets, one module each with `write` and `USAGE`."""
