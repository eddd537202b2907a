"""The ledger: one SQL database (SQLite or PostgreSQL) that records everything, and a folder of artifacts beside it."""
