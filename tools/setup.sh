#!/usr/bin/env bash
# The steps of `make setup` that need more than a line. Usage: tools/setup.sh toolchain|dependencies|lint|docs|browser VENV
# Everything lands in VENV; pip is the ordinary one and reads the user's own configuration (index, proxy, certificates).
set -euo pipefail
cd "$(dirname "$0")/.."

step=$1
venv=$2
python=${PYTHON:-python3}

say() { printf '== %s\n' "$*"; }
fail() {
    printf '\nset-up stopped: %s\n' "$1" >&2
    shift
    printf '  %s\n' "$@" >&2
    exit 1
}

# The oldest compiler that Cargo.toml accepts, "1.95".
wanted_rust() { sed -n 's/^rust-version *= *"\(.*\)"/\1/p' Cargo.toml; }

toolchain() {
    command -v "$python" >/dev/null ||
        fail "there is no '$python'" "Install Python 3.10 or newer, or name one: make PYTHON=/path/to/python3"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
        fail "$("$python" --version) is too old; 3.10 or newer is needed" "Name another one: make PYTHON=python3.12"
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "'$python' cannot make virtual environments" \
            "Debian and Ubuntu keep that in a package of its own: sudo apt install python3-venv"
    command -v cargo >/dev/null ||
        fail "there is no Rust toolchain" "Install one from https://rustup.rs and open a new shell"
    local rust wanted
    rust=$(rustc --version | cut -d' ' -f2)
    wanted=$(wanted_rust)
    [ "$(printf '%s\n%s\n' "$wanted" "$rust" | sort -V | head -n1)" = "$wanted" ] ||
        fail "Rust $rust is too old; $wanted or newer is needed" "rustup update stable"
    command -v cc >/dev/null ||
        fail "there is no C linker ('cc'), which Rust needs to link" "sudo apt install gcc"
    if [ ! -x "$venv/bin/python" ] || [ ! -x "$venv/bin/pip" ]; then
        say "Making a virtual environment in $venv with $("$python" --version)"
        "$python" -m venv --clear "$venv"
    fi
}

# pip, without what nobody asked for. Quiet unless the caller wants to see a long download move.
pip_install() { "$venv/bin/python" -m pip install --disable-pip-version-check "$@"; }

# Prints what the given groups of pyproject.toml ask for and VENV lacks, one a line.
missing() { "$venv/bin/python" tools/requirements.py --missing "$@"; }

install() {
    local wanted=()
    mapfile -t wanted < <(missing "$@")
    if [ ${#wanted[@]} -eq 0 ]; then return; fi
    say "Installing ${wanted[*]}"
    if printf '%s\n' "${wanted[@]}" | grep -q '^torch'; then
        say "torch is a large download (gigabytes from the default index, which builds it for CUDA); it comes once."
        echo "   A smaller one does as well: $venv/bin/pip install torch --index-url https://download.pytorch.org/whl/cpu"
        pip_install "${wanted[@]}"
    else
        pip_install --quiet "${wanted[@]}"
    fi
}

case $step in
toolchain) toolchain ;;
dependencies) install build-system project test ;;
lint) install dev ;;
docs) install docs ;;
browser) install browser ;;
*) fail "unknown step '$step'" ;;
esac
