#!/usr/bin/env bash
# Test the page in a real browser: Debian's chromium without a screen, driven by playwright.
#
# `tools/test_browser.sh [PYTEST_ARGUMENT...]` (make test-browser). Environment: VENV (the bridge's environment, default
# .venv). Where chromium is missing it is installed, if this user may: root, with apt-get.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly PYTHON="${VENV:-.venv}/bin/python"
readonly REQUIREMENTS=tools/browser-requirements.txt

fail() { echo "test-browser: $*" >&2; exit 1; }

[[ -x "$PYTHON" ]] || fail "$PYTHON is missing: run 'make setup-tests' first"
if ! command -v chromium >/dev/null; then
  [[ "$(id -u)" -eq 0 ]] && command -v apt-get >/dev/null || fail "chromium is missing (Debian: apt install chromium)"
  echo "test-browser: installing chromium" >&2
  { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium; } >&2 \
    || fail "chromium could not be installed (Debian: apt install chromium)"
fi
"$PYTHON" -m pip install --quiet --disable-pip-version-check -r "$REQUIREMENTS" || fail "$REQUIREMENTS could not be installed"
exec env ROS_PYTHON_CHECK_FIELDS=1 ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST "$PYTHON" -m pytest test/browser "$@"
