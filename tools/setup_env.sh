#!/usr/bin/env bash
# Find a Python that the wheels of ROS 2 support, and run tools/setup_env.py with it. `--which` only prints it.
set -euo pipefail

supported='import sys; sys.exit(sys.implementation.name != "cpython" or not (3, 10) <= sys.version_info[:2] <= (3, 13))'
if [ -n "${PYTHON:-}" ]; then
    candidates=("$PYTHON")
else
    candidates=(python3 python3.13 python3.12 python3.11 python3.10)
fi
for candidate in "${candidates[@]}"; do
    if command -v "$candidate" >/dev/null && "$candidate" -c "$supported" 2>/dev/null; then
        if [ "${1:-}" = --which ]; then
            command -v "$candidate"
            exit
        fi
        exec "$candidate" "$(dirname "$0")/setup_env.py" "$@"
    fi
done
if [ -n "${PYTHON:-}" ]; then
    echo "set-up: PYTHON=$PYTHON is no CPython 3.10, 3.11, 3.12 or 3.13" >&2
else
    echo "set-up: no CPython 3.10 to 3.13 found: install one (Debian, Ubuntu: apt install python3 python3-venv" \
        "python3-dev) or name one with PYTHON=path" >&2
fi
exit 1
