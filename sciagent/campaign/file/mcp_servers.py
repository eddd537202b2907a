"""The MCP servers of a campaign file: their addresses and the tools that the model may call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from sciagent.agent.tools.mcp_tool_and_reduced_schema import function_name
from sciagent.domain.safe_text_and_durations import address_fault
from sciagent.inputs.names_outside_the_file import Outside
from sciagent.inputs.yaml_validation import Faults, Part, fault

MAX_SERVERS = 8
MAX_TOOLS = 32  # tools per server

Word = Annotated[str, StringConstraints(min_length=1, max_length=1000)]

_TOOL = re.compile(r"[!-~]{1,128}")  # name of a tool
_SERVER = re.compile(r"[a-z][a-z0-9_]{0,23}")  # name of a server
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # name of an environment variable


def _checked_url(value: str) -> str:
    """Returns the address as it is. Raises a fault for an address that cannot be used, or that holds a password."""
    why = address_fault(value)
    if "@" in value:
        why = "takes http:// or https://, without a name or password in it"
    if why:
        raise fault(f'"{value}" is no address', why)
    return value


def _checked_variable(value: str) -> str:
    """Returns the name as it is. Raises a fault for a text that is no name of an environment variable."""
    if not _VARIABLE.fullmatch(value):
        raise fault(f'"{value}" is no name of an environment variable', "the name, not the secret itself")
    return value


Variable = Annotated[str, Field(max_length=100), AfterValidator(_checked_variable), Outside.VARIABLE]
"""The name of an environment variable."""


class McpServerSpec(Part):
    """An MCP server whose tools the model may call: a program to start, or an address.

    A program runs with the rights of the user who runs the campaign, in the folder of the campaign file, without a
    shell, and without environment variables other than PATH, HOME and the like. A program of a restricted file has to
    be registered, and runs in the root folder.
    """

    command: Annotated[tuple[Word, ...], Outside.COMMAND] | None = Field(
        None, min_length=1, max_length=64, description="Program and arguments; it speaks MCP on stdin and stdout."
    )
    url: Annotated[str, Field(max_length=500), AfterValidator(_checked_url), Outside.ADDRESS] | None = Field(
        None, description="Address of a server over streamable HTTP."
    )
    token_env: Variable | None = Field(
        None,
        description="Environment variable with a secret: sent as a bearer token to a url, passed under the same name "
        "to a command.",
    )
    tools: tuple[str, ...] = Field(
        min_length=1, max_length=MAX_TOOLS, description="Names of the tools that may be called."
    )
    timeout: Annotated[float, Field(gt=0, le=3600, description="Seconds that one call may take.")] = 30.0

    @field_validator("tools")
    @classmethod
    def _are_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        with Faults() as faults:
            for place, name in enumerate(value):
                if not _TOOL.fullmatch(name):
                    faults.add((place,), f'"{name}" is no name of a tool', "1 to 128 visible ASCII characters")
                elif name in value[:place]:
                    faults.add((place,), f'"{name}" is listed twice')
        return value

    @model_validator(mode="after")
    def _has_one_address(self) -> McpServerSpec:
        has_exactly_one = (self.command is None) != (self.url is None)
        if not has_exactly_one:
            both = "names both a command and a url" if self.url else "names neither a command nor a url"
            raise fault(f"{both}; a server has exactly one of them")
        return self


def check_servers(servers: Mapping[str, McpServerSpec], ours: tuple[str, ...]) -> None:
    """Raises faults for invalid server names, and for two tools with the same full name. ours: names of sciagent's
    tools."""
    owners = dict.fromkeys(ours, "a tool of sciagent")  # what has a full name already, in words
    with Faults() as faults:
        if len(servers) > MAX_SERVERS:
            faults.add((), f"{len(servers)} servers; the limit is {MAX_SERVERS}")
        for name, server in servers.items():
            if not _SERVER.fullmatch(name):
                hint = 'takes 1 to 24 of a-z, 0-9 and "_", the first a letter'
                faults.add((name,), f'"{name}" is no name for a server', hint, on_key=True)
                continue
            for place, tool in enumerate(server.tools):
                full = function_name(name, tool)
                loc = (name, "tools", place)
                if full in owners:
                    faults.add(loc, f'would be called "{full}", as {owners[full]} is', "rename a server")
                owners.setdefault(full, f"{name}: {tool}")
