"""One target under the engine: ``python -m tests.fuzz`` starts it, with the sanitizers' runtime loaded before it.

``python -m tests.fuzz.engine TARGET`` takes the options of libFuzzer.
"""

from __future__ import annotations

import gc
import sys

import atheris

from tests.fuzz.targets import TARGETS

if __name__ == "__main__":
    target = TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, target)
    gc.freeze()  # what is imported is not looked through again and again
    atheris.Fuzz()
