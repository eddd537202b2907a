"""The ledger: one SQL database (SQLite or PostgreSQL) that is the truth, and the artifacts beside it."""
