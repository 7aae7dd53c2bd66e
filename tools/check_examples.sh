#!/usr/bin/env bash
# Run the public REP 0158 compliance checker on every example, in every variant. Exit status 0: no error, and only the
# known warnings (tools/check_examples.py lists and explains them). --verbose prints each of them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Keep a sourced ROS 2 or an activated environment out of the checker's environment.
unset PYTHONPATH PYTHONHOME LD_LIBRARY_PATH _ROS_WHEELS_BOOTSTRAP_COMPLETE

venv=.venv-checker
requirement=ros-openusd-compliance-checker==0.1.2

if [[ $(cat "$venv/.complete" 2>/dev/null) != "$requirement" ]]; then
  new_enough='import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))'
  for python in "${PYTHON:-python3}" python3.12 python3.13 python3.14 "$HOME"/.pyenv/versions/3.1[2-9].*/bin/python; do
    if "$python" -c "$new_enough" 2>/dev/null; then
      rm -rf "$venv"
      "$python" -m venv "$venv"
      "$venv/bin/pip" install -qq --disable-pip-version-check "$requirement"
      echo "$requirement" > "$venv/.complete"
      break
    fi
  done
  if [[ ! -e $venv/.complete ]]; then
    echo "check_examples: the compliance checker needs Python 3.12 or newer with venv; set PYTHON to one" >&2
    exit 2
  fi
fi
exec "$venv/bin/python" tools/check_examples.py "$@"
