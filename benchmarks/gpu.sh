#!/usr/bin/env bash
# Build wengert, check its kernels and time them on the GPU of this machine, in one command:
#
#     benchmarks/gpu.sh [--dry-run] [--installed] [--budget SECONDS] [--out FILE]
#
# Every result is a line of JSON, written immediately; a stage that fails or takes too long writes a separate line,
# and the next stage runs.
#   --dry-run    stages that need no GPU: versions, tests, registers and lower bounds, the cases against NumPy
#   --installed  use the wengert installed for the Python named by PYTHON; nothing is built
#   --budget     seconds for the timings of all cases
# JAX and CuPy are timed as well if they are installed.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
python=${PYTHON:-python3}
budget=240 mode="" build=yes out=benchmarks/results/gpu.jsonl
while [ $# -gt 0 ]; do
    case $1 in
        --dry-run) mode=--dry-run ;;
        --installed) build= ;;
        --budget) budget=$2; shift ;;
        --out) out=$2; shift ;;
        *) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
    shift
done
mkdir -p "$(dirname "$out")"
: >"$out"
failures=0

# stage NAME SECONDS COMMAND...: run a command with a time limit, and record its outcome.
stage() {
    local name=$1 limit=$2 start=$SECONDS status
    shift 2
    printf '\n==== %s\n' "$name"
    timeout --kill-after=10 "$limit" "$@"
    status=$?
    [ $status -eq 0 ] || failures=$((failures + 1))
    printf '{"stage": "%s", "status": %d, "seconds": %d}\n' "$name" $status $((SECONDS - start)) | tee -a "$out"
    return $status
}

if [ -n "$build" ]; then
    stage build 900 bash -c '
        "$0" -m venv --system-site-packages "$1" && "$1/bin/python" -m pip install --quiet ".[test,cuda]"' \
        "$python" "$root/benchmarks/env/gpu" || exit 1
    python=$root/benchmarks/env/gpu/bin/python
fi
cases() { "$python" -m benchmarks.gpu_cases "$@" --out "$out"; }
export -f cases
export python out
# JAX would reserve most of the device memory
export XLA_PYTHON_CLIENT_PREALLOCATE=false JAX_ENABLE_X64=1 PYTHONUNBUFFERED=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

stage environment 60 bash -c "cases environment $mode"
stage tests 600 "$python" -m pytest tests/cuda -q -x
stage reports 300 bash -c "cases reports"
stage checks 300 bash -c "cases checks $mode"
if [ -z "$mode" ]; then
    stage ceilings 60 bash -c "cases ceilings"
    stage cases $((budget + 60)) bash -c "cases times --budget $budget"
    if command -v ncu >/dev/null; then
        stage counters 90 ncu --clock-control none --set full --launch-count 3 --csv --log-file "${out%.jsonl}.ncu.csv" \
            "$python" -m benchmarks.gpu_cases once --case forty
    fi
    if command -v compute-sanitizer >/dev/null; then
        stage memcheck 120 compute-sanitizer --error-exitcode 1 "$python" -m benchmarks.gpu_cases once --case branches
    fi
fi
printf '\n%d stages failed; results: %s\n' "$failures" "$out"
exit $((failures > 0))
