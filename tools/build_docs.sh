#!/usr/bin/env bash
# Build the site into site/ (`make docs`), or serve it to its authors (`make docs-serve`): the environment is .venv-docs.
#
# `tools/build_docs.sh build|serve [MKDOCS_ARGUMENT...]`. Environment: PYTHON (default python3). No ROS is
# needed: the Python reference is read from the source. Examples of diagnostics are planned by the usd-core of .venv-docs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/own_venv.sh
# Keep a sourced ROS 2 or an activated environment out of this environment.
unset PYTHONPATH PYTHONHOME LD_LIBRARY_PATH _ROS_WHEELS_BOOTSTRAP_COMPLETE

readonly VENV=.venv-docs
readonly REQUIREMENTS=tools/docs-requirements.txt
readonly VERSIONS=tools/requirements/run.txt
readonly MERMAID=tools/docs-mermaid.txt

if needs_venv "$VENV" "$REQUIREMENTS" "$VERSIONS" "$MERMAID" tools/build_docs.sh; then
  echo "docs: installing mkdocs-material, mkdocstrings and usd-core into $VENV" >&2
  new_venv
  pip=("$VENV/bin/python" -m pip --quiet --disable-pip-version-check)
  install --requirement "$REQUIREMENTS" --constraint "$VERSIONS"
  # Diagrams are drawn by this file of the site, so that it needs no network.
  "${pip[@]}" download --no-deps --only-binary :all: --python-version 3.13 --require-hashes --dest "$VENV/mermaid" \
    --requirement "$MERMAID"
  "$VENV/bin/python" - "$VENV" <<'PYTHON'
import pathlib, sys, zipfile

venv = pathlib.Path(sys.argv[1])
(wheel,) = (venv / "mermaid").glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    (venv / "mermaid" / "mermaid.min.js").write_bytes(archive.read("artoo_mermaid/assets/mermaid.min.js"))
PYTHON
  venv_is_whole
fi

# Material announces its successor with every build.
export NO_MKDOCS_2_WARNING=1
command=$1
shift
exec "$VENV/bin/mkdocs" "$command" "$@"
