"""Build the wheel usd_ros_bridge_interfaces from the packages of interfaces/ with the rosidl generators.

Run it with the Python of an environment that has the ROS wheels of the distribution:
`.venv/bin/python tools/build_interfaces.py --distro jazzy --wheel-dir DIR`. How is in
tools/message_packages.py, which builds any message package.

The wheel also makes its environment a ROS 2 prefix (venv_ros_prefix.py): it is installed where the ROS wheels are
and nowhere else, unlike the bridge's own wheel, which a simulator's Python may get.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from message_packages import WheelInfo, build_wheel, failure_of

ROOT = Path(__file__).resolve().parent.parent
INTERFACES = ROOT / "interfaces"
NAME = "usd_ros_bridge_interfaces"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--distro", required=True, help="ROS 2 distribution whose definitions are wanted")
    parser.add_argument("--wheel-dir", type=Path, required=True, help="where the wheel goes")
    options = parser.parse_args()
    folders = sorted(path.parent for path in INTERFACES.glob("*/package.xml"))
    names = [folder.name for folder in folders]
    info = WheelInfo(
        name=NAME,
        version=wheel_version(),
        summary=f"{', '.join(names)} for ROS 2 {options.distro.capitalize()}",
        license="Apache-2.0",
        license_file=ROOT / "LICENSE",
        modules={
            "_usd_ros_bridge_prefix.py": (ROOT / "tools" / "venv_ros_prefix.py").read_text(encoding="utf-8"),
            # Named to sort behind the ROS wheels' own .pth file, whose work it completes.
            "usd_ros_bridge_prefix.pth": "import _usd_ros_bridge_prefix\n",
        },
    )
    overlays = [INTERFACES / options.distro / name for name in names]
    try:
        print(build_wheel(folders, info, options.wheel_dir, overlays=overlays))
    except subprocess.CalledProcessError as error:
        print(failure_of(error), file=sys.stderr)
        return 1
    return 0


def wheel_version() -> str:
    """The major version of the distribution's rclpy, then that of the bridge.

    One name has wheels for several distributions, so the version must tell them apart, as those of the ROS wheels do:
    a local version (+jazzy) would, but package indexes refuse it.
    """
    text = (ROOT / "usd_ros_bridge" / "__init__.py").read_text(encoding="utf-8")
    bridge = re.findall(r'^__version__ = "(.*)"$', text, re.MULTILINE)[0]
    return f"{version('ros-rclpy').split('.')[0]}.{bridge}"


if __name__ == "__main__":
    sys.exit(main())
