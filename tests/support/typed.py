"""Commands called in this process, as they are typed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from typer import testing

from sciagent.cli.main import app
from sciagent.errors import UsageError


def environment_of(width: int | None) -> dict[str, str]:
    """Environment of output to a file or a pipe; with a width, of output to a terminal."""
    shown = {"COLUMNS": str(width or 200), "NO_COLOR": "1", "TERM": "dumb"}
    return shown if width is None else shown | {"LINES": "50", "TTY_COMPATIBLE": "1", "TERM": "xterm"}


def without_styles(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


testing._get_command = cache(testing._get_command)  # all commands are made once, which takes 0.1 s


def invoked(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> testing.Result:
    """Calls a command."""
    return testing.CliRunner().invoke(app, list(arguments), env=environment)


def call(*arguments: str, width: int | None = None) -> testing.Result:
    return invoked(arguments, environment_of(width))


def told(*arguments: str, width: int | None = None) -> str:
    result = call(*arguments, width=width)
    assert result.exit_code == 0, result.output
    return without_styles(result.output)


def data(*arguments: str) -> Any:
    result = call(*arguments, "--json")
    assert result.exit_code in (0, 1), result.output
    return json.loads(result.stdout)


def refused(*arguments: str) -> str:
    result = call(*arguments)
    assert isinstance(result.exception, UsageError), result.output
    return str(result.exception)
