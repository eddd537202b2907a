"""`python -m sciagent` is `sciagent`."""

from sciagent.cli.main import main

main()
