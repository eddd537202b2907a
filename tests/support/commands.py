"""The command line in this process, as it is typed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import Result

from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger
from tests.support.typed import environment_of, invoked, without_styles


class Typed:
    """Commands on one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.url = ledger.url.render_as_string(False)

    def call(self, *arguments: str, width: int | None = None) -> Result:
        """What comes of it, whatever it is. width: of a terminal; without, output goes to a pipe."""
        return invoked([*arguments, "--ledger", self.url], environment_of(width))

    def told(self, *arguments: str, width: int | None = None) -> str:
        result = self.call(*arguments, width=width)
        assert result.exit_code == 0, result.output
        return without_styles(result.output)

    def data(self, *arguments: str) -> Any:
        result = self.call(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def refused(self, *arguments: str) -> str:
        """The message of a call that is wrong."""
        result = self.call(*arguments)
        assert isinstance(result.exception, UsageError), result.output
        return str(result.exception)


@pytest.fixture
def typed(ledger: Ledger) -> Typed:
    return Typed(ledger)
