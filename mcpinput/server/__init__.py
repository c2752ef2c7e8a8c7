"""The server: registration, checks, dispatch, and HTTP. `mcpinput.Server` is the face of it."""
