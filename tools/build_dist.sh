#!/usr/bin/env bash
# Build what users install into dist/: the sdist, the wheel made from it, and the wheel of the ROS interfaces that `make setup`
# built for this Python and distribution: `make dist`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/own_venv.sh
# Keep a sourced ROS 2 or an activated environment out of this environment.
unset PYTHONPATH PYTHONHOME LD_LIBRARY_PATH _ROS_WHEELS_BOOTSTRAP_COMPLETE

readonly DIST_VENV=.venv-dist
readonly REQUIREMENTS=tools/dist-requirements.txt
# The oldest glibc that the ROS wheels support.
readonly PLATFORM=manylinux_2_28_$(uname -m)

if needs_venv "$DIST_VENV" "$REQUIREMENTS"; then
  new_venv
  install --requirement "$REQUIREMENTS"
  venv_is_whole
fi

interfaces=("$VENV"/.setup/wheels/*.whl)
if [[ ! -e "${interfaces[0]}" ]]; then
  echo "dist: $VENV is over a sourced ROS 2, which has the interfaces: use a shell without it, or VENV=.venv-plain" >&2
  exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Without further arguments: the wheel is built from the sdist, so nothing that lies about in the tree gets into it.
"$DIST_VENV/bin/python" -m build --no-isolation --outdir "$work" . >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; exit 1; }
# All libraries but glibc's are in the ROS wheels that this one requires: none is copied into it.
if ! PATH="$PWD/$DIST_VENV/bin:$PATH" "$DIST_VENV/bin/auditwheel" repair --plat "$PLATFORM" --only-plat --exclude 'lib*' \
    --wheel-dir "$work" "${interfaces[0]}" >"$work/log" 2>&1; then
  echo "dist: the interfaces do not fit $PLATFORM, so their wheel is for machines as new as this one only:" \
    "$(tail -n 1 "$work/log")" >&2
  cp "${interfaces[0]}" "$work"
fi

mkdir -p dist
# The results of earlier builds; the interfaces for other distributions and Pythons stay.
rm -f dist/usd_ros_bridge-*
name=$(basename "${interfaces[0]}")
rm -f "dist/${name%-*}"-*.whl
mv "$work"/*.whl "$work"/*.tar.gz dist/
echo "dist: $(cd dist && du -h --apparent-size ./*.whl ./*.tar.gz | sed 's/\t\.\//  /' | paste -sd ';' | sed 's/;/; /g')" >&2
