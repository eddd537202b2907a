"""The database of the ledger: tables, engine, migrations, artifacts, backups."""
