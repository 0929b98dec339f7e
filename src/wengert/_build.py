"""The `build_ext` command that pyproject.toml names: include directories and compiler flags.

setuptools loads this file by its path before the package is built, so it imports nothing of it.
`WENGERT_WERROR=1` turns the C compiler's warnings on and into errors; `.ci/run` sets it.
"""

import os
import sys
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools.command.build_ext import build_ext as _build_ext

# No flag changes a value: errno and floating-point traps go unread, and contraction to fused
# multiply-add, which would break bit-equality with NumPy, is off.
UNIX = ["-std=c11", "-O2", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"]
MSVC = ["/std:c11", "/O2", "/fp:precise"]

# Neither debug information nor symbols, four fifths of what would be installed, unless CFLAGS asks for them.
WITH_SYMBOLS = any(flag.startswith("-g") and flag != "-g0" for flag in os.environ.get("CFLAGS", "").split())
STRIP = [] if WITH_SYMBOLS else ["-g0"]
STRIP_LINK = [] if WITH_SYMBOLS or sys.platform == "darwin" else ["-Wl,-s"]  # Apple's linker does not know -s

# The one exclusion: Cython emits utility functions that a module may not call.
WERROR = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
MACROS = [
    ("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"),
    ("NPY_TARGET_VERSION", "NPY_2_0_API_VERSION"),
]


class build_ext(_build_ext):
    def finalize_options(self):
        super().finalize_options()
        self.cython_directives = {"language_level": 3, **self.cython_directives}
        for ext in self.extensions or ():
            home = Path(ext.sources[0]).parent
            homes = dict.fromkeys([home, home.parent / "core"])
            patterns = ("*.pxd", "*.pxi", "*.h")
            interfaces = [path for place in homes for pattern in patterns for path in place.glob(pattern)]
            ext.depends += sorted(path.as_posix() for path in interfaces)
            ext.include_dirs += [numpy.get_include(), *map(str, homes)]
            ext.define_macros += MACROS

    def build_extensions(self):
        msvc = self.compiler.compiler_type == "msvc"
        flags = MSVC if msvc else UNIX + STRIP
        if os.environ.get("WENGERT_WERROR", "0") != "0":
            flags = flags + (["/WX"] if msvc else WERROR)
        for ext in self.extensions:
            ext.extra_compile_args += flags
            ext.libraries += [] if msvc else ["m"]
            ext.extra_link_args += [] if msvc else STRIP_LINK
        self.parallel = self.parallel or os.cpu_count()
        self.translate()
        super().build_extensions()

    def translate(self):
        """Cython to C, in processes of their own: unlike the C compiler, Cython does not run in several threads."""
        translated = cythonize(
            self.extensions,
            nthreads=self.parallel,
            force=self.force,
            quiet=self.verbose == 0,
            build_dir=self.build_temp if self.cython_c_in_temp else None,
            include_path=["src"],
            compiler_directives=self.cython_directives,
        )
        sources = {ext.name: ext.sources for ext in translated}
        for ext in self.extensions:
            ext.sources = sources[ext.name]
        self.cython_c_in_temp = 0  # they are there
        self.extensions.sort(key=lambda ext: -os.path.getsize(ext.sources[0]))  # no long one comes last, alone
