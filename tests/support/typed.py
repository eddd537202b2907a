"""Commands called in this process, as they are typed."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner, Result

from sciagent.cli.main import app
from sciagent.errors import UsageError


def call(*arguments: str, width: int = 200) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": str(width), "NO_COLOR": "1", "TERM": "dumb"})


def told(*arguments: str, width: int = 200) -> str:
    result = call(*arguments, width=width)
    assert result.exit_code == 0, result.output
    return result.output


def data(*arguments: str) -> Any:
    result = call(*arguments, "--json")
    assert result.exit_code in (0, 1), result.output
    return json.loads(result.stdout)


def refused(*arguments: str) -> str:
    result = call(*arguments)
    assert isinstance(result.exception, UsageError), result.output
    return str(result.exception)
