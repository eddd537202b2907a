"""Tools of external MCP servers, with limits and checks, so that a model may call them."""
