#!/bin/sh
# Builds with AddressSanitizer and UndefinedBehaviorSanitizer in a temporary folder, the VM with bounds checks and a
# separate buffer for each array, and runs tests there: by default those that reach most of the compiled code, and
# random programs.  Arguments are passed to pytest, and random programs are then omitted.
# Exit status: 99 if a sanitizer reports an error, which ends the run, else that of pytest.
# usage: [PYTHON=python] tests/sanitize.sh [tests/test_inplace.py ...]
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python}
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
mkdir "$build/tree"
tar -C "$here" -cf - --exclude=./.git --exclude=./build --exclude='*.so' . | tar -C "$build/tree" -xf -
cd "$build/tree"
fuzz=
[ $# -gt 0 ] || {
    fuzz=yes
    set -- tests/test_recording.py tests/test_inplace.py tests/test_second.py tests/test_vm.py \
        tests/test_random_programs.py tests/test_fuzz.py tests/test_forward.py tests/test_memory_safety.py \
        tests/test_replay.py tests/test_loop_recovery.py tests/test_folds.py tests/test_blocks.py tests/test_program.py
}

# With full optimisation for every instruction set, the checks take very long to compile: the last options are -O1,
# and a single instruction set.
cat > "$build/cc" <<CC
#!/bin/sh
exec ${CC:-cc} "\$@" -O1 '-Dtarget_clones(...)='
CC
chmod +x "$build/cc"
flags='-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1'
WENGERT_DEBUG=1 CC="$build/cc" CFLAGS="$flags" LDFLAGS="$flags" \
    "$python" -m pip install --quiet --no-deps --target "$build/site" .

# Python's own allocator hides its blocks from the sanitizer, and objects that Python keeps until exit are not leaks.
# A report ends the process, so pytest must not capture stderr.
preload=
for library in asan ubsan stdc++; do
    preload="$preload $(${CC:-cc} -print-file-name=lib$library.so)"
done
status=0
sanitized() {
    PYTHONPATH="$build/site" PYTHONMALLOC=malloc OPENBLAS_NUM_THREADS=1 \
        ASAN_OPTIONS=detect_leaks=0:exitcode=99 UBSAN_OPTIONS=print_stacktrace=1:exitcode=99 \
        LD_PRELOAD="$preload" "$python" "$@" || status=$?
}
sanitized -m pytest -q -n0 --capture=sys -p no:cacheprovider "$@"
[ -z "$fuzz" ] || [ $status -ne 0 ] || {
    sanitized -m tests.fuzz --programs 300
    sanitized -m tests.fuzz.sizes --programs 200
}
[ $status -ne 99 ] || echo "tests/sanitize.sh: a sanitizer reports" >&2
exit $status
