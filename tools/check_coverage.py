"""Check that `make test` covers the core: each module with at least 80 % of its lines, or with a reason why not.

`tools/core_coverage.txt` lists the modules of the core: `PATH`, or `PATH: REASON`. `make coverage` measures and checks.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "usd_ros_bridge"
LIST = ROOT / "tools" / "core_coverage.txt"
LEAST = 80.0
APPS = (
    "view/*",
    "sweep/*",
    "fleet/*",
    "report/*",
    "importing/*",
    "ros/foxglove/*",
    "ros/recording/*",
    "backends/bag/*",
    "cli/graph/*",
    "cli/live_*",
    "cli/start_view.py",
    "cli/sweep_*",
    "cli/fleet_*",
    "cli/import_*",
    "cli/recover_*",
    "cli/report_*",
    "cli/view_command.py",
    "cli/topic_echo.py",
)
"""Files that are no part of the core: apps that need libraries that only pip has. `make test-all` covers them."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", type=Path, help="JSON report of coverage.py")
    parser.add_argument("--write", action="store_true", help="write the list again; reasons stay")
    options = parser.parse_args()
    try:
        report = json.loads(options.measured.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        print(f"coverage: {options.measured} cannot be read: {error}", file=sys.stderr)
        return 2
    measured = {
        Path(path).resolve().relative_to(ROOT).as_posix(): entry["summary"]["percent_covered"]
        for path, entry in report["files"].items()
        if entry["summary"]["num_statements"]
    }
    reasons = read_list()
    if options.write:
        write_list(measured, reasons)
        reasons = read_list()
    faults = find_faults(measured, reasons)
    for fault in faults:
        print(f"coverage: {fault}", file=sys.stderr)
    core = [measured.get(path, 0.0) for path in core_modules()]
    excused = sum(bool(reason) for reason in reasons.values())
    print(
        f"coverage: {len(core)} modules of the core, {sum(each >= LEAST for each in core)} with at least {LEAST:g} %, "
        f"{excused} with a reason; {len(faults)} faults"
    )
    return 1 if faults else 0


def core_modules() -> list[str]:
    """Return the core's modules that have code, as paths from the root of the repository."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not any(fnmatch(name, pattern) for pattern in APPS) and has_code(path):
            found.append(path.relative_to(ROOT).as_posix())
    return found


def has_code(path: Path) -> bool:
    """Return whether a module has more than a docstring."""
    compiled = compile(path.read_text(encoding="utf-8"), str(path), "exec", optimize=2)
    return bool(compiled.co_names)


def read_list() -> dict[str, str]:
    """Return the reason of each listed module; "" for those that have to be covered."""
    lines = LIST.read_text(encoding="utf-8").splitlines() if LIST.exists() else []
    entries = [line.partition(": ") for line in lines if line and not line.startswith("#")]
    return {path: reason for path, _, reason in entries}


def write_list(measured: Mapping[str, float], reasons: Mapping[str, str]) -> None:
    head = [line for line in LIST.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    lines = []
    for path in core_modules():
        reason = "" if measured.get(path, 0.0) >= LEAST else reasons.get(path, "")
        lines.append(f"{path}: {reason}" if reason else path)
    LIST.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")


def find_faults(measured: Mapping[str, float], reasons: Mapping[str, str]) -> list[str]:
    core = core_modules()
    faults = [f"{path} is not in {LIST.name}: add it" for path in core if path not in reasons]
    faults += [f"{path} of {LIST.name} is no module of the core" for path in reasons if path not in core]
    for path in core:
        percent = measured.get(path, 0.0)
        if path in reasons and not reasons[path] and percent < LEAST:
            faults.append(
                f"{path}: {percent:.0f} % of its lines, not {LEAST:g} %: test it, or give the reason"
            )
    return faults


if __name__ == "__main__":
    sys.exit(main())
