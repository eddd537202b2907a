"""`sciagent mcp CAMPAIGN`: serves the tools of a campaign over the Model Context Protocol."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any

import typer

from sciagent.cli import options
from sciagent.cli.output_logging_and_given_structures import open_ledger, say
from sciagent.errors import UsageError

if TYPE_CHECKING:
    from sciagent.campaign.proposing.mcp_episode import McpEpisode


def mcp(
    campaign: options.CampaignName = None,
    http: int | None = typer.Option(None, min=1, max=65535, help="Port of http://127.0.0.1:PORT/mcp; default: stdio."),
    ledger: options.Ledger = None,
) -> None:
    """Serve a campaign's tools (propose, modify, best, history, …) over MCP, beside its driver or without one.

    What a client proposes is parsed, screened and gated as any other proposal, and is a turn in the ledger.
    """
    import importlib.util

    from sciagent.api.campaign import Campaign
    from sciagent.campaign.core.create_and_open import open_campaign_for_people
    from sciagent.campaign.proposing.mcp_episode import McpEpisode

    if importlib.util.find_spec("mcp") is None:
        raise UsageError("this needs an extra: pip install 'sciagent[llm]'")
    opened = open_ledger(ledger)
    name = Campaign.open(campaign, opened).name
    with McpEpisode(open_campaign_for_people(opened, name), client="mcp") as served:
        place = f"at http://127.0.0.1:{http}/mcp" if http else "on stdin and stdout"
        say(f"serving the tools of {name} {place}")
        import anyio

        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that the episode is closed
        anyio.run(_serve, _server(served, name), http)


def _server(served: McpEpisode, name: str) -> Any:
    """Returns an MCP server with the tools of an episode. name: of the campaign."""
    import anyio.to_thread
    from mcp import types
    from mcp.server.lowlevel import Server

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
        tools = [
            types.Tool(name=tool["name"], description=tool["description"], input_schema=tool["parameters"])
            for tool in served.schemas()
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        result = await anyio.to_thread.run_sync(served.call, params.name, params.arguments or {})
        return types.CallToolResult(content=[types.TextContent(type="text", text=result.text)], is_error=not result.ok)

    return Server(
        f"sciagent {name}", instructions=served.instructions, on_list_tools=list_tools, on_call_tool=call_tool
    )


async def _serve(server: Any, port: int | None) -> None:
    """Serves over HTTP at a port of this machine; None: over stdin and stdout."""
    if port is None:
        from mcp.server.stdio import stdio_server

        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
        return
    import uvicorn

    app = server.streamable_http_app()  # rejects requests with a foreign Host header
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning")
    await uvicorn.Server(config).serve()
