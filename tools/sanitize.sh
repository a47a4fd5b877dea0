#!/usr/bin/env bash
# Runs what no ordinary test can show: loom over the hand-off, the rings, the line before a worker and its queue,
# ThreadSanitizer over the threads, AddressSanitizer over the memory. Without arguments all three; `tools/sanitize.sh
# loom|thread|address` runs one.
#
# Each has a target directory of its own, so that ordinary builds stay as they are. Nothing is skipped: what cannot run
# is an error, and so is a filter that matches no test.
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
    echo "sanitize: $1" >&2
    exit 1
}

# Runs a command, shows what it prints, and fails unless at least one test ran.
run_tests() {
    local log
    log=$(mktemp)
    if ! "$@" 2>&1 | tee "$log"; then
        rm -f "$log"
        return 1
    fi
    if ! grep -Eq '^test result: ok\. [1-9][0-9]* passed' "$log"; then
        rm -f "$log"
        die "no test ran: $*"
    fi
    rm -f "$log"
}

# Two preemptions: of eight errors planted in the hand-off and the ring (a core that parks without looking again, an
# unpark left out, orderings that are too weak, ...) one preemption misses three and two misses none. With three the
# models take ten times as long and find no more.
loom() {
    echo "== loom"
    RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-2}" CARGO_TARGET_DIR=target/loom \
        run_tests cargo test --release --lib loom_
}

# The sanitizers of a stable compiler are behind RUSTC_BOOTSTRAP. The standard library is not rebuilt (that would need its
# sources), hence the flag that allows to mix both kinds of code. ThreadSanitizer then sees what the library inlines
# into this crate, but neither its channels (`tools/tsan.supp`) nor a lock that had to be waited for (`--cfg tsan`, see
# `rust/src/sync.rs`). Naming the target keeps the flags away from build scripts and procedural macros.
sanitizer() {
    local target
    target=$(rustc -vV | sed -n 's/^host: //p')
    case $target in
        x86_64-unknown-linux-gnu | aarch64-unknown-linux-gnu) ;;
        *) die "no sanitizers for $target" ;;
    esac
    local name=$1 flags="-Zsanitizer=$1 -Cunsafe-allow-abi-mismatch=sanitizer"
    shift
    if [[ $name == thread ]]; then flags+=" --cfg tsan"; fi
    RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="target/sanitize-$name" RUSTFLAGS="$flags" \
        run_tests cargo test --target "$target" "$@"
}

thread() {
    echo "== ThreadSanitizer"
    export TSAN_OPTIONS="halt_on_error=1 suppressions=$PWD/tools/tsan.supp ${TSAN_OPTIONS:-}"
    # What a panicking test prints is neither captured nor traced: the library does both under locks of its own.
    export RUST_BACKTRACE=0
    sanitizer thread --lib -- --no-capture trace:: pool tasks replays worker::line worker::queue worker::tests::lives
    sanitizer thread --test trace -- --no-capture
}

address() {
    echo "== AddressSanitizer"
    export ASAN_OPTIONS="detect_stack_use_after_return=1 ${ASAN_OPTIONS:-}"
    sanitizer address --lib -- arena:: worker:: kernels:: device::
}

case ${1:-all} in
    all)
        loom
        thread
        address
        ;;
    loom | thread | address) "$1" ;;
    *) die "unknown check '$1'; use loom, thread, address, or nothing for all" ;;
esac
echo "sanitize: clean"
