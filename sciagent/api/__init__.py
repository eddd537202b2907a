"""The Python interface for notebooks, scripts and the command line: campaigns, ledgers and tables of results."""
