"""Check the keys of package.xml against a clone of rosdistro: `python tools/check_rosdep_keys.py CLONE [DISTRO ...]`.

Every key must be a released package of the distribution, or have a rosdep rule for its Ubuntu. A key without a
condition must lead to apt: packages whose dependencies come from pip cannot be released. The exit status is 1 if a key
has a fault.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import yaml

PACKAGE_XML = Path(__file__).resolve().parents[1] / "package.xml"
DISTROS = ("jazzy", "kilted", "lyrical", "rolling")
TAGS = ("depend", "build_depend", "buildtool_depend", "exec_depend", "test_depend")


def main(arguments: list[str]) -> int:
    """Print one line for each fault and one for each distribution. Return the exit status."""
    clone, distros = Path(arguments[0]), arguments[1:] or DISTROS
    rules = {
        key: rule
        for name in ("base", "python")
        for key, rule in yaml.safe_load(
            (clone / "rosdep" / f"{name}.yaml").read_text(encoding="utf-8")
        ).items()
    }
    keys = dict(_keys())
    status = 0
    for distro in distros:
        distribution = yaml.safe_load((clone / distro / "distribution.yaml").read_text(encoding="utf-8"))
        release = distribution["release_platforms"]["ubuntu"][0]
        packages = _released(distribution)
        faults = [
            fault
            for key, is_conditional in keys.items()
            if key not in packages and (fault := _fault(key, rules.get(key), release, is_conditional))
        ]
        status |= bool(faults)
        print(f"{distro}, Ubuntu {release}: {len(keys) - len(faults)} of {len(keys)} keys are valid")
        print("".join(f"  {fault}\n" for fault in faults), end="")
    return status


def _keys() -> Iterator[tuple[str, bool]]:
    for element in ElementTree.parse(PACKAGE_XML).getroot():
        if element.tag in TAGS and element.text:
            yield element.text, "condition" in element.attrib


def _released(distribution: dict[str, Any]) -> set[str]:
    return {
        package
        for name, repository in distribution["repositories"].items()
        if "version" in (release := repository.get("release", {}))
        for package in release.get("packages", [name])
    }


def _fault(key: str, rule: dict[str, Any] | None, release: str, is_conditional: bool) -> str:
    """Return what is wrong with a key that is no released package, "" if nothing is."""
    if rule is None:
        return f"{key}: neither a released package nor a rosdep key"
    found = rule.get("ubuntu", rule.get("*"))
    if isinstance(found, dict) and "pip" not in found and "apt" not in found:
        found = found.get(release, found.get("*"))
    if found is None:
        return f"{key}: no rule for this release"
    if isinstance(found, dict) and "pip" in found and not is_conditional:
        return f"{key}: comes from pip, and needs a condition"
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
