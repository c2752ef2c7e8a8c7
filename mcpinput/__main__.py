"""``python -m mcpinput``: the same as the command ``mcpinput``."""

from mcpinput.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
