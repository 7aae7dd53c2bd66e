"""Make .venv-robots, the environment of tools/test_robots.sh: the converters of `usd_ros_bridge import`, and robots.

Run with the bridge's Python: `python tools/robots_environment.py .venv-robots`. ROBOTS_PYTHON names the Python of the
environment, 3.10 to 3.12; it is searched if unset.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.importing.converter import REQUIREMENTS, make_environment

TOOLS = Path(__file__).parent


def main() -> None:
    try:
        make_environment(
            Path(sys.argv[1]).absolute(),
            requirements=[REQUIREMENTS, TOOLS / "robots-requirements.txt"],
            without_dependencies=[TOOLS / "robots-models.txt"],
            python=os.environ.get("ROBOTS_PYTHON") or None,
        )
    except BridgeError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
