#!/usr/bin/env bash
# Check that a release can be published under a tag: `tools/check_release.sh v0.1.0`. The version of the package is that of the tag,
# package.xml and CITATION.cff have the same, and CHANGELOG.md has a section for it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly TAG="${1:?usage: tools/check_release.sh vX.Y.Z}"
failed=0
fail() { echo "check-release: $*" >&2; failed=1; }

[[ "$TAG" =~ ^v[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "a release has a tag such as v1.2.3, not '$TAG'"
readonly VERSION="${TAG#v}"
has() { grep -qxF -- "$2" "$1" || fail "$1 has no line '$2'"; }

has usd_ros_bridge/__init__.py "__version__ = \"$VERSION\""
has package.xml "  <version>$VERSION</version>"
has CITATION.cff "version: $VERSION"
grep -qE "^## \[?${VERSION//./\\.}\]?( |$)" CHANGELOG.md || fail "CHANGELOG.md has no section '## $VERSION': rename 'Unreleased'"
[[ "$failed" -eq 0 ]] && echo "check-release: $TAG can be published"
exit "$failed"
