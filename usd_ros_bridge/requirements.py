"""The packages that the bridge needs from others, and how each is installed: for errors, `doctor` and `backends`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from usd_ros_bridge.errors import BridgeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A package of others.

    Attributes:
        label: Its name for people.
        modules: Python modules by which its absence shows.
        remedy: What installs it.
        purpose: What needs it.
    """

    label: str
    modules: tuple[str, ...]
    remedy: str
    purpose: str

    def fault(self, error: ImportError) -> str:
        """Return one line about an import that failed, with its remedy."""
        absent = isinstance(error, ModuleNotFoundError) and error.name in self.modules
        what = f"is not installed (no module {error.name})" if absent else f"cannot be imported: {error}"
        return f"{self.label} {what}, which is needed for {self.purpose}: {self.remedy}"


ROS = Requirement(
    label="ROS 2 for Python",
    modules=(
        "rclpy",
        "rpyutils",
        "rosgraph_msgs",
        "rcl_interfaces",
        "builtin_interfaces",
    ),
    remedy='source a ROS 2 installation, or pip install "usd_ros_bridge[jazzy]"',
    purpose="running the bridge",
)
OPENUSD = Requirement(
    label="OpenUSD", modules=("pxr",), remedy='pip install "usd-core>=26.5"', purpose="opening assets"
)
INTERFACES = Requirement(
    label="the ROS interfaces",
    modules=("tf2_msgs", "control_msgs", "simulation_interfaces"),
    remedy='pip install "usd_ros_bridge[jazzy]", or of a sourced ROS 2: apt install ros-$ROS_DISTRO-tf2-msgs '
    "ros-$ROS_DISTRO-control-msgs ros-$ROS_DISTRO-simulation-interfaces",
    purpose="/tf, controllers and simulation services",
)
CLICK = Requirement(
    label="click", modules=("click",), remedy="pip install click rich", purpose="the command line"
)
RICH = Requirement(
    label="rich", modules=("rich",), remedy="pip install click rich", purpose="the command line"
)
NUMPY = Requirement(label="numpy", modules=("numpy",), remedy="pip install numpy", purpose="everything")
SCIPY = Requirement(
    label="SciPy",
    modules=("scipy",),
    remedy="pip install scipy, or apt install python3-scipy",
    purpose="masses of meshes, and sampling of sweeps",
)
MUJOCO = Requirement(
    label="MuJoCo", modules=("mujoco",), remedy='pip install "mujoco>=3.3"', purpose="the backend mujoco"
)
NEWTON = Requirement(
    label="Newton",
    modules=("newton", "warp"),
    remedy='pip install "usd_ros_bridge[newton]"',
    purpose="the backend newton",
)
BAGS = Requirement(
    label="rosbags",
    modules=("rosbags",),
    remedy='pip install "usd_ros_bridge[bags]"',
    purpose="playing bags",
)
VISER = Requirement(
    label="viser",
    modules=("viser",),
    remedy='pip install "usd_ros_bridge[view]"',
    purpose="the page in a browser",
)
FOXGLOVE = Requirement(
    label="foxglove-sdk",
    modules=("foxglove",),
    remedy='pip install "usd_ros_bridge[record]"',
    purpose="recordings and the server for Foxglove",
)
MCAP = Requirement(
    label="mcap",
    modules=("mcap",),
    remedy='pip install "usd_ros_bridge[record]"',
    purpose="recovering recordings",
)
REGEX = Requirement(
    label="regex",
    modules=("regex",),
    remedy='pip install "usd_ros_bridge[filters]", or apt install python3-regex',
    purpose="filters of entity names",
)
JSONSCHEMA = Requirement(
    label="jsonschema",
    modules=("jsonschema",),
    remedy='pip install "usd_ros_bridge[ray]"',
    purpose="sweep files",
)
YAML = Requirement(
    label="PyYAML",
    modules=("yaml",),
    remedy='pip install "usd_ros_bridge[cli]"',
    purpose="sweep files and the import of robots",
)
RAY = Requirement(
    label="Ray",
    modules=("ray",),
    remedy='pip install "usd_ros_bridge[ray]"',
    purpose="sweeps",
)
PYARROW = Requirement(
    label="pyarrow",
    modules=("pyarrow",),
    remedy='pip install "usd_ros_bridge[ray]"',
    purpose="results of sweeps",
)
MATPLOTLIB = Requirement(
    label="matplotlib",
    modules=("matplotlib",),
    remedy='pip install "usd_ros_bridge[ray]"',
    purpose="reports of sweeps",
)
REQUIREMENTS = (
    NUMPY,
    SCIPY,
    CLICK,
    RICH,
    ROS,
    INTERFACES,
    OPENUSD,
    MUJOCO,
    NEWTON,
    VISER,
    FOXGLOVE,
    MCAP,
    BAGS,
    REGEX,
    JSONSCHEMA,
    YAML,
    RAY,
    PYARROW,
    MATPLOTLIB,
)


def is_installed(module: str) -> bool:
    """Return whether there is a top-level module. It is not imported."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def find_requirement(error: ImportError) -> Requirement | None:
    """Return the requirement whose module an import did not find, None for a module of nobody's list."""
    module = (error.name or "").partition(".")[0]
    return next((each for each in REQUIREMENTS if module in each.modules), None)


def missing_requirement(error: ImportError) -> BridgeError | None:
    """Return an import error as a caller's mistake with its remedy, None where it is none."""
    found = find_requirement(error)
    return None if found is None else BridgeError(found.fault(error))
