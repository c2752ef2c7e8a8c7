"""Property tests are judged by what they find, not by how long an example takes on a busy machine.

``MCPINPUT_EXAMPLES`` sets how many examples each test tries, where something slows all of them down (a sanitizer).
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("untimed", deadline=None, max_examples=int(os.environ.get("MCPINPUT_EXAMPLES", "100")))
settings.load_profile("untimed")
