"""Tools of other people's MCP servers: reached, bounded and checked, so that a model may call them."""
