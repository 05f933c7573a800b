#!/bin/sh
# Create the virtual environment $1 with the first Python 3.11 or newer that can; say what is missing if none.
set -eu
venv=$1

fits() {
    command -v "$1" >/dev/null 2>&1 &&
        "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

found=""
for python in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    if fits "$python"; then
        found=$python
        break
    fi
done
if [ -z "$found" ]; then
    echo "No Python 3.11 or newer was found (tried: ${PYTHON:-python3, python3.11 to python3.14})." >&2
    echo "Install one, or name it: make PYTHON=/path/to/python3.12 ..." >&2
    exit 1
fi
if ! "$found" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    echo "$found cannot create virtual environments; on Debian and Ubuntu: apt-get install python3-venv" >&2
    exit 1
fi
echo "Creating $venv with $("$found" --version)"
# Built beside and moved would break the scripts' paths, so a half-made one is removed instead.
"$found" -m venv "$venv" || { rm -rf "$venv"; exit 1; }
