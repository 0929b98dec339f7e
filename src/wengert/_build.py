"""The `build_ext` command named in pyproject.toml: compiler flags, include directories and incremental builds.

setuptools loads this file by its path before the package is built, so it imports nothing from the package.
`WENGERT_WERROR=1` enables the C compiler's warnings as errors; `.ci/run` sets it.
`WENGERT_DEBUG=1` makes the VM check buffer bounds; `tests/sanitize.sh` sets it.
"""

import os
import re
import sys
import sysconfig
from pathlib import Path

import Cython
import numpy
from Cython.Build import cythonize
from Cython.Build.Dependencies import create_dependency_tree
from setuptools.command.build_ext import build_ext as _build_ext
from setuptools.modified import newer_group

# No flag changes a result: nothing reads errno or floating-point traps, and contraction to fused multiply-add, which
# would break bit-equality with NumPy, is off.
UNIX = ["-std=c11", "-fvisibility=hidden", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"]
MSVC = ["/std:c11", "/O2", "/fp:precise"]

# C files with scalar and array loops, and the modules that run at every recorded operation, are compiled for speed.
# Modules that mostly call Python gain nothing from optimisation, but have the longest C
# (benchmarks/instructions.py).
FAST, PLAIN, QUICK = "-O3", "-O1", "-Og"
_INTEGRATION = "field", "stepper", "explicit", "collocation", "backward", "integrand"
LEVELS = {
    **dict.fromkeys(["core.tape.kernel", "core.tape.memory", "core.tape.products", "core.operands.var"], FAST),
    "core.modes.pullback": FAST,
    "rules.scipy.spline_places": FAST,
    **dict.fromkeys(["program.integration." + name for name in _INTEGRATION], FAST),
    **dict.fromkeys(["program.roots." + name for name in ("linear", "newton", "equations", "lanes")], FAST),
    **dict.fromkeys(["core.dispatch.arguments", "core.dispatch.dispatch", "core.dispatch.methods"], QUICK),
    **dict.fromkeys(["core.frames", "core.modes.nested"], QUICK),
    **dict.fromkeys(["program.tracing.ssa", "program.derive.source_transform", "program.passes.scalarise"], QUICK),
}

# Strip debug information and symbols, most of the installed size, unless CFLAGS asks for them. Apple's linker has no
# option to strip symbols.
WITH_SYMBOLS = any(flag.startswith("-g") and flag != "-g0" for flag in os.environ.get("CFLAGS", "").split())
COMPILE_STRIPPED = [] if WITH_SYMBOLS else ["-g0"]
LINK_STRIPPED = [] if WITH_SYMBOLS or sys.platform == "darwin" else ["-Wl,-s"]

# -Wno-unused-function: Cython emits utility functions that a module may not call.
WERROR = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
MACROS = [
    ("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"),
    ("NPY_TARGET_VERSION", "NPY_2_0_API_VERSION"),
]

# Without auto_pickle, extension classes can be pickled only if they define how. Without code comments, the generated C
# is a fifth shorter.
DIRECTIVES = {"language_level": 3, "auto_pickle": False, "emit_code_comments": False}

# Module with Cython's code for typed memoryviews, which would otherwise be copied into every module.
SHARED = "wengert._cython"

# Directory of headers that C files of several packages include.
TAPE = Path("src/wengert/core/tape")


def headers(source, places):
    """Return the headers of this package that a C file includes, directly or indirectly."""
    found, unread = set(), [Path(source)]
    while unread:
        names = re.findall(r'^#include "([^"]+)"', unread.pop().read_text(encoding="utf-8"), re.M)
        new = {path for name in names for place in places if (path := Path(place, name)).exists()} - found
        found |= new
        unread += new
    return sorted(map(str, found))


class build_ext(_build_ext):
    def finalize_options(self):
        super().finalize_options()
        self.cython_directives = {**DIRECTIVES, **self.cython_directives}
        for ext in self.extensions or ():
            ext.homes = dict.fromkeys([*(Path(source).parent for source in ext.sources[:1]), TAPE])
            ext.include_dirs += [numpy.get_include(), *map(str, ext.homes)]
            ext.define_macros += MACROS
            ext.define_macros += [("WG_DEBUG", "1")] if os.environ.get("WENGERT_DEBUG", "0") != "0" else []

    def build_extensions(self):
        self.msvc = self.compiler.compiler_type == "msvc"
        if self.editable_mode:  # setuptools' temporary directories would force a full rebuild
            machine = f"{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
            self.build_temp, self.build_lib = f"build/temp.{machine}", f"build/lib.{machine}"
        self.parallel = self.parallel or os.cpu_count()
        flags = MSVC if self.msvc else UNIX + COMPILE_STRIPPED
        if os.environ.get("WENGERT_WERROR", "0") != "0":
            flags = flags + (["/WX"] if self.msvc else WERROR)
        for ext in self.extensions:
            ext.extra_compile_args += flags
            if not self.msvc:
                ext.libraries += ["m"]
                ext.extra_link_args += LINK_STRIPPED
        self.translate()
        super().build_extensions()

    def translate(self):
        """Translate Cython to C in parallel processes, since Cython, unlike the C compiler, cannot run in threads."""
        stamp = Path(self.build_temp, "translated.txt")
        versions = f"Cython {Cython.__version__}, NumPy {numpy.__version__}, {self.cython_directives}"
        force = self.force or not stamp.exists() or stamp.read_text() != versions
        stamp.unlink(missing_ok=True)
        for ext in self.extensions:
            ext.written = ext.sources[1:]
        stale = [ext for ext in self.extensions if force or self.is_stale(ext)]
        cythonize(
            stale,
            nthreads=self.parallel,
            force=True,
            quiet=self.verbose == 0,
            build_dir=self.build_temp,
            include_path=["src"],
            compiler_directives=self.cython_directives,
            shared_utility_qualified_name=SHARED,
        )
        for ext in self.extensions:
            ext.sources = [self.c_file(ext)]
            ext.depends = headers(ext.sources[0], ext.homes)
        stamp.write_text(versions)
        self.cython_c_in_temp = 0  # the sources already are the translated files
        self.extensions.sort(key=lambda ext: -os.path.getsize(ext.sources[0]))  # longest first, for parallel builds

    def c_file(self, ext):
        """Return the path of the C file that Cython writes for a module."""
        source = Path(ext.sources[0]) if ext.sources else Path(*ext.name.split("."))
        return str(Path(self.build_temp, source.with_suffix(".c")))

    def is_stale(self, ext):
        """Return whether the Cython source of a module, or a file it depends on, is newer than its C file.

        Installed declarations of Cython and NumPy are left out: pip may reinstall them for each build, so their times
        are always newer. Their versions, in `translated.txt`, count instead.
        """
        sources = create_dependency_tree().all_dependencies(ext.sources[0]) if ext.sources else ()
        return newer_group([path for path in sources if not os.path.isabs(path)], self.c_file(ext))

    def build_extension(self, ext):
        ext.extra_objects += [self.object_of(source, ext) for source in ext.written]
        ext.depends += ext.extra_objects
        if not self.msvc:
            ext.extra_compile_args += [LEVELS.get(ext.name.removeprefix("wengert."), PLAIN)]
        super().build_extension(ext)

    def object_of(self, source, ext):
        """Compile a handwritten C file if it or one of its headers has changed; return the object file."""
        (built,) = self.compiler.object_filenames([source], output_dir=self.build_temp)
        if self.force or newer_group([source, *headers(source, ext.homes)], built):
            self.compiler.compile(
                [source],
                output_dir=self.build_temp,
                macros=ext.define_macros,
                include_dirs=ext.include_dirs,
                debug=self.debug,
                extra_postargs=ext.extra_compile_args + ([] if self.msvc else [FAST]),
            )
        return built
