"""Commands for the ledger, the installation and the benchmarks."""
