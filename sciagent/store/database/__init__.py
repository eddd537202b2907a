"""The database itself: tables, engine, migrations, files, back-ups."""
