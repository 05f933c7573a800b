#!/bin/sh
# Install this project, editable, with extras $2 into the virtual environment $1. Quiet unless it fails.
set -eu
venv=$1
extras=$2

echo "Installing selfmanaged[$extras] into $venv"
log="$venv/install.log"
if ! "$venv/bin/python" -m pip install --disable-pip-version-check --no-input -e ".[$extras]" >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    echo "The installation failed; the whole log is in $log" >&2
    exit 1
fi
