"""Executors and workers, which run jobs. The ledger records every job; an executor only knows the jobs it runs now."""
