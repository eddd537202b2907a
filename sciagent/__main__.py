"""Runs the command line for `python -m sciagent`."""

from sciagent.cli.main import main

main()
