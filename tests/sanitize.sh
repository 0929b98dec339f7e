#!/bin/sh
# Builds with AddressSanitizer and UndefinedBehaviorSanitizer in a temporary folder and runs tests there, by default
# those of the core; exit status other than 0 where one fails or a sanitizer reports.  Arguments are pytest's.
# usage: [PYTHON=python] tests/sanitize.sh [tests/test_inplace.py ...]
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python}
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cp -R "$here"/. "$build"/tree
find "$build/tree/src" -name '*.so' -delete
cd "$build/tree"
[ $# -gt 0 ] || set -- tests/test_recording.py tests/test_inplace.py tests/test_forward.py tests/test_nesting.py \
    tests/test_operands.py tests/test_second.py tests/test_random_programs.py tests/test_replay.py tests/test_machine.py

# Optimised as the build asks, the checks take the compiler very long: its last word is -O1.
printf '#!/bin/sh\nexec %s "$@" -O1\n' "${CC:-cc}" > "$build/cc"
chmod +x "$build/cc"
flags='-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1'
CC="$build/cc" CFLAGS="$flags" LDFLAGS="$flags" \
    "$python" -m pip install --quiet --no-deps --target "$build/site" .

# Python's own allocator hides its blocks from the sanitizer, and what Python keeps until its end is no leak.
preload=
for library in asan ubsan stdc++; do
    preload="$preload $(${CC:-cc} -print-file-name=lib$library.so)"
done
PYTHONPATH="$build/site" PYTHONMALLOC=malloc OPENBLAS_NUM_THREADS=1 \
    ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
    LD_PRELOAD="$preload" \
    "$python" -m pytest -q -n0 -p no:cacheprovider "$@"
