"""MCP servers in a campaign file: what is right, what is wrong and where, and that files without them are as before."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.campaign.file.proposers import LlmSpec
from sciagent.errors import SpecError
from tests.campaign.fake_verifiers import CAMPAIGN, make_folder  # noqa: F401

EVOLVE = "  kind: evolve\n  seeds: seeds.csv\n"
TEXT = CAMPAIGN.replace(EVOLVE, "  kind: llm\n  model: m\n  structured: false\nMCP")
MCP = """\
  mcp:
    literature:
      command: [python, -m, my_server]
      tools: [search, abstract]
    web:
      url: http://127.0.0.1:9000/mcp
      token_env: WEB_TOKEN
      tools: [get.page]
      timeout: 5
"""
FIRST = TEXT[: TEXT.index("MCP")].count("\n") + 1  # line of `mcp:`

# what is replaced, by what, line after that of `mcp:` and column, path, part of the message
MISTAKES = {
    "both": ("      command:", "      url: http://h/mcp\n      command:", (1, 5), "literature", "both a command and"),
    "neither": ("      url: http://127.0.0.1:9000/mcp\n", "", (4, 5), "web", "neither a command nor"),
    "a shell": ("[python, -m, my_server]", "python -m my_server", (2, 16), "literature.command", "must be a list"),
    "no program": ("[python, -m, my_server]", "[]", (2, 16), "literature.command", "at least one entry"),
    "empty word": ("[python, -m,", '[python, "",', (2, 25), "literature.command[1]", "at least 1 character"),
    "no tools": ("      tools: [search, abstract]\n", "", (1, 5), "literature.tools", "required, and missing"),
    "nothing allowed": ("[search, abstract]", "[]", (3, 14), "literature.tools", "at least one entry"),
    "all allowed": ("[search, abstract]", '["*", "a b"]', (3, 20), "literature.tools[1]", "is no name of a tool"),
    "listed twice": ("[search, abstract]", "[search, search]", (3, 23), "literature.tools[1]", "listed twice"),
    "a file": ("http://127.0.0.1:9000/mcp", "file:///etc/passwd", (5, 12), "web.url", "is no address"),
    "a password": ("http://127", "http://me:word@127", (5, 12), "web.url", "without a name or password"),
    "a secret": ("WEB_TOKEN", "sk-12345", (6, 18), "web.token_env", "not the secret itself"),
    "no time": ("timeout: 5", "timeout: 0", (8, 16), "web.timeout", "greater than 0"),
    "unknown key": ("timeout: 5", "timeut: 5", (8, 7), "web.timeut", 'did you mean "timeout"?'),
    "name": ("    web:", "    My-web:", (4, 5), "My-web", "no name for a server"),
    "one name for two": (
        "[get.page]",
        "[get.page, get_page]",
        (7, 25),
        "web.tools[1]",
        'would be called "web_get_page"',
    ),
}


def test_servers_are_read(folder: Path) -> None:
    proposer = parse_spec(TEXT.replace("MCP", MCP), base=folder).proposer
    assert isinstance(proposer, LlmSpec)
    literature, web = proposer.mcp["literature"], proposer.mcp["web"]
    assert (literature.command, literature.url, literature.timeout) == (("python", "-m", "my_server"), None, 30)
    assert (web.url, web.token_env, web.tools, web.timeout) == (
        "http://127.0.0.1:9000/mcp",
        "WEB_TOKEN",
        ("get.page",),
        5,
    )


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_reported_at_its_place(name: str, folder: Path) -> None:
    old, new, (line, column), path, fragment = MISTAKES[name]
    assert MCP.count(old) == 1
    with pytest.raises(SpecError) as caught:
        parse_spec(TEXT.replace("MCP", MCP.replace(old, new)), "dyes.yaml", folder)
    places = [one for one in str(caught.value).splitlines() if not one.startswith("  ")]
    assert len(places) == 1 and places[0].startswith(f"dyes.yaml:{FIRST + line}:{column}: proposer.mcp.{path}: "), (
        places
    )
    assert fragment in str(caught.value)


def test_servers_are_part_of_what_a_campaign_is(folder: Path) -> None:
    one = parse_spec(TEXT.replace("MCP", MCP), base=folder)
    other = parse_spec(TEXT.replace("MCP", MCP.replace("search, ", "")), base=folder)
    assert one.identity_hash != other.identity_hash
    assert one.canonical()["proposer"]["mcp"]["web"]["token_env"] == "WEB_TOKEN"
