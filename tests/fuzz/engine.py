"""One target under the engine: ``python -m tests.fuzz`` starts it, with the sanitizers' runtime loaded before it.

``python -m tests.fuzz.engine TARGET`` takes the options of libFuzzer.
"""

from __future__ import annotations

import gc
import shlex
import sys

import atheris

from tests.fuzz.targets import TARGETS

if __name__ == "__main__":
    name = sys.argv.pop(1)
    # By this the engine starts itself when it merges.
    sys.argv[0] = shlex.join((sys.executable, "-m", "tests.fuzz.engine", name))
    atheris.Setup(sys.argv, TARGETS[name])
    gc.freeze()  # what is imported is not looked through again and again
    atheris.Fuzz()
