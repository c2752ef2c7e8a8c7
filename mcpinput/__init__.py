"""Ask the person on the other side of an MCP server, with sealed state and exact decimals."""
