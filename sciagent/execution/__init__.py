"""Execution: where jobs run. The ledger is the record; an executor only knows what it runs right now."""
