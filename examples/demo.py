"""Serves the demo's catalog: two tools, a prompt and two resources that ask the person on the other side.

    python examples/demo.py --port 8000

The operations themselves are in ``mcpinput/_demo.py``, to be read from top to bottom. Options are those of
``mcpinput serve``.
"""

import sys

from mcpinput._demo import demo_server
from mcpinput.cli import main

server = demo_server()

if __name__ == "__main__":
    raise SystemExit(main(["serve", "__main__:server", *sys.argv[1:]]))
