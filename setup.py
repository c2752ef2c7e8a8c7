"""Builds the sources of ``_core/`` into ``mcpinput._core.*``.

The mode is read once, from ``MCPINPUT_BUILD``: ``release`` (default), ``asan`` (address and undefined-behaviour
sanitizers), ``fuzz`` (those by clang, with its coverage instrumentation, for ``python -m tests.fuzz``) or ``trace``
(line tracing, for coverage of the .pyx files). Each mode has its own build folder, so that no build picks up objects of
another.
"""

import os
import shutil
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext

MODE = os.environ.get("MCPINPUT_BUILD", "release")
CORE_MODULES = sorted(path.stem for path in Path("_core").glob("*.pyx"))

# By clang, whose coverage the fuzzing engine reads. The first fault ends the run. CPython calls functions by other
# types than their own, which newer versions of clang would report.
UNINSTRUMENTED = "tests/fuzz/uninstrumented.txt"
FUZZ_ARGS = [
    "-fsanitize=fuzzer-no-link,address,undefined",
    f"-fsanitize-coverage-ignorelist={UNINSTRUMENTED}",
    "-fno-sanitize=function",
    "-fno-sanitize-recover=undefined",
]
COMPILE_ARGS = {
    "release": ["-O3", "-g0", "-Wall", "-Wno-unused-function"],
    "asan": ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-Wall", "-Wno-unused-function"],
    "fuzz": ["-O1", "-g", "-fno-omit-frame-pointer", *FUZZ_ARGS, "-Wall", "-Wno-unused-function"],
    "trace": ["-O0", "-g"],
}
LINK_ARGS = {"release": [], "asan": ["-fsanitize=address,undefined"], "fuzz": FUZZ_ARGS, "trace": []}
MACROS = {
    "release": [],
    "asan": [],
    "fuzz": [],
    "trace": [("CYTHON_TRACE", "1"), ("CYTHON_TRACE_NOGIL", "1"), ("CYTHON_USE_SYS_MONITORING", "0")],
}
if MODE not in COMPILE_ARGS:
    raise SystemExit(f"MCPINPUT_BUILD={MODE!r}: expected one of {', '.join(COMPILE_ARGS)}")

if MODE == "fuzz":
    os.environ.setdefault("CC", "clang")

BUILD_BASE = "build" if MODE == "release" else f"build/{MODE}"


class ModeBuild(build):
    """One ``build_base`` for each mode."""

    def initialize_options(self):
        super().initialize_options()
        self.build_base = BUILD_BASE


class CoreBuildExt(build_ext):
    """Runs Cython with the ``.pxd`` files laid out under the qualified names by which it looks for them."""

    def finalize_options(self):
        super().finalize_options()
        # Only coverage wants the C files beside the sources. There they could be left over from another mode, so a
        # trace build makes everything anew, and no other build looks for them there.
        self.cython_c_in_temp = MODE != "trace"
        self.force = self.force or MODE == "trace"
        self.cython_directives = {
            "language_level": 3,
            "auto_pickle": False,
            "autotestdict": False,
            "embedsignature": False,
            "linetrace": MODE == "trace",
        }
        self.cython_include_dirs = [str(Path(BUILD_BASE, "pxd"))]

    def build_extensions(self):
        target = Path(BUILD_BASE, "pxd", "mcpinput", "_core")
        target.mkdir(parents=True, exist_ok=True)
        (target.parent / "__init__.pxd").touch()
        for source in Path("_core").glob("*.pxd"):
            copy = target / source.name
            # Only changed files are copied: a newer .pxd would make every extension be built again.
            if not copy.exists() or copy.read_bytes() != source.read_bytes():
                shutil.copy(source, copy)
        super().build_extensions()


def core_extension(name):
    headers = sorted(str(path) for pattern in ("*.h", "*.pxd") for path in Path("_core").glob(pattern))
    return Extension(
        f"mcpinput._core.{name}",
        [f"_core/{name}.pyx"],
        include_dirs=["_core"],
        depends=[*headers, UNINSTRUMENTED] if MODE == "fuzz" else headers,
        extra_compile_args=COMPILE_ARGS[MODE],
        extra_link_args=LINK_ARGS[MODE],
        define_macros=MACROS[MODE],
    )


setup(
    ext_modules=[core_extension(name) for name in CORE_MODULES],
    cmdclass={"build": ModeBuild, "build_ext": CoreBuildExt},
)
