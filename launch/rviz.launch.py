"""Start RViz for the robots of an OpenUSD asset, with a configuration that is made from the asset.

    ros2 launch usd_ros_bridge rviz.launch.py asset:=robot.usda namespace:=robot1

The other launch files include this one for `rviz:=true`. For a bridge that runs elsewhere, give it the arguments of the
bridge.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml
from ament_index_python.packages import PackageNotFoundError, get_package_prefix
from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, LogInfo, OpaqueFunction
from launch.logging import launch_config
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.substitutions import ExecutableInPackage
from launch_ros.utilities import prefix_namespace

OWN_PACKAGE = "usd_ros_bridge"
TIMEOUT_S = 300.0

# Options of `usd_ros_bridge rviz` for launch arguments, or parameters of the parameter file, of the same names.
OPTIONS = {
    "tf_output": "--tf-output",
    "frame_prefix": "--frame-prefix",
    "base_transform": "--base-transform",
    "backend": "--backend",
    "interfaces": "--interfaces",
    "payloads": "--payloads",
    "massless_bodies": "--massless-bodies",
    "shard": "--shard",
}
LIST_OPTIONS = {"variants": "--variant", "contexts": "--contexts", "packages": "--package"}


def typed(context: LaunchContext, name: str) -> str:
    """Return the text of a launch argument, "" if it was not given."""
    return str(LaunchConfiguration(name, default="").perform(context)).strip()


def file_parameters(context: LaunchContext) -> dict[str, Any]:
    """Return the parameters of the parameter file, of all its nodes. The bridge reports what is wrong with it."""
    path = typed(context, "params_file")
    try:
        nodes = yaml.safe_load(Path(path).read_text(encoding="utf-8")) if path else {}
        return {
            name: value
            for node in nodes.values()
            for name, value in node.get("ros__parameters", {}).items()
            if value not in ("", [""], None)
        }
    except (OSError, AttributeError, yaml.YAMLError):
        return {}


def command(context: LaunchContext, file: str) -> list[str]:
    """Return the command line that writes the configuration to a file.

    Raises:
        LookupError: No asset is given, or the bridge is not installed.
    """
    in_file = file_parameters(context)
    # The Python of `ros2 launch` may lack OpenUSD; the executable starts the one it was installed with.
    words = [ExecutableInPackage(OWN_PACKAGE, OWN_PACKAGE).perform(context), "rviz"]
    asset = typed(context, "asset") or str(in_file.get("asset", ""))
    if not asset:
        raise LookupError("it needs the argument asset")
    around = context.launch_configurations.get("ros_namespace", "")
    namespace = prefix_namespace(around, typed(context, "namespace"))
    words += [asset, "--namespace", str(in_file.get("namespace") or namespace)]
    for name, option in OPTIONS.items():
        text = typed(context, name) or str(in_file.get(name, ""))
        words += [option, text] if text else []
    for name, option in LIST_OPTIONS.items():
        text = typed(context, name)
        if name == "contexts" and text and not (text.startswith("[") and text.endswith("]")):
            # Globs are no YAML. The option takes the commas, too.
            words += [option, text]
            continue
        given = yaml.safe_load(text if text.startswith("[") else f"[{text}]") or in_file.get(name, [])
        words += [word for each in given if each for word in (option, str(each))]
    return [*words, "-o", file, "--force", "--all-robots", "--json"]


def made_configuration(context: LaunchContext) -> dict[str, Any]:
    """Write the configuration to the directory of the launch's logs. Return how RViz is started with it.

    Raises:
        RuntimeError: It cannot be made; the message says why.
    """
    file = launch_config.get_log_file_path("bridge.rviz")
    try:
        made = subprocess.run(  # noqa: S603 - a program of our own
            command(context, file), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, LookupError, yaml.YAMLError, subprocess.TimeoutExpired) as error:
        raise RuntimeError(str(error)) from error
    if made.returncode:
        lines = made.stderr.strip().splitlines() or [f"exit status {made.returncode}"]
        raise RuntimeError(lines[-1].removeprefix(f"{OWN_PACKAGE}: "))
    found: dict[str, Any] = json.loads(made.stdout)
    return found


def is_installed(package: str) -> bool:
    """Return whether a package has its executable here."""
    try:
        return (Path(get_package_prefix(package)) / "lib" / package).is_dir()
    except PackageNotFoundError:
        return False


def rviz(context: LaunchContext) -> list[Any]:
    """Return RViz, and what connects the trees of several robots; or the reason why there is no RViz.

    Several robots have one /tf for RViz only with `tf_output:=both`: that is set for the bridge, unless the user has
    chosen another one.
    """
    if not is_installed("rviz2"):
        return [
            LogInfo(
                msg="rviz: rviz2 is not installed here: all else starts without it; install ros-$ROS_DISTRO-rviz2, or "
                "start RViz elsewhere with the file of `usd_ros_bridge rviz ASSET -o FILE`"
            )
        ]
    try:
        made = made_configuration(context)
    except RuntimeError as error:
        return [LogInfo(msg=f"rviz: RViz is not started: {error}")]
    chosen = typed(context, "tf_output") or file_parameters(context).get("tf_output")
    remarks = made["remarks"]
    if made["tf_output"] and not chosen:
        context.launch_configurations["tf_output"] = made["tf_output"]
        remarks = [f"several robots: the bridge has tf_output:={made['tf_output']}", *remarks]
    links, frames = made["links"], ", ".join(link["child"] for link in made["links"])
    if links and is_installed("tf2_ros"):
        remarks = [*remarks, f"{frames}: static transforms put the robots where they stand at the start"]
    elif links:
        links = []
        remarks = [*remarks, f"nothing connects {frames} to {made['fixed_frame']}: tf2_ros is not installed"]
    domain = {} if made["domain_id"] is None else {"ROS_DOMAIN_ID": str(made["domain_id"])}
    use_sim_time = made["use_sim_time"] or typed(context, "use_sim_time").lower() == "true"
    file = typed(context, "rviz_config") or made["file"]
    return [
        *(LogInfo(msg=f"rviz: {each}") for each in remarks),
        *(link_node(link, domain) for link in links),
        Node(
            package="rviz2",
            executable="rviz2",
            arguments=["-d", file],
            remappings=[tuple(pair) for pair in made["remaps"]],
            parameters=[{"use_sim_time": use_sim_time}],
            additional_env=domain,
            output="log",
        ),
    ]


def link_node(link: dict[str, Any], domain: dict[str, str]) -> Node:
    """Return the node that sends a transform between the trees of two robots."""
    x, y, z = link["translation"]
    qx, qy, qz, qw = link["rotation"]
    numbers = {"x": x, "y": y, "z": z, "qx": qx, "qy": qy, "qz": qz, "qw": qw}
    words = [word for name, number in numbers.items() for word in (f"--{name}", str(number))]
    return Node(
        package="tf2_ros",
        executable="static_transform_publisher",
        arguments=[*words, "--frame-id", link["parent"], "--child-frame-id", link["child"]],
        additional_env=domain,
        output="log",
    )


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments, and RViz."""
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "asset",
                default_value="",
                description="The OpenUSD asset: a path (relative to the current directory) or "
                "package://NAME/PATH. Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "rviz_config",
                default_value="",
                description="An .rviz file of your own. Empty: made from the asset.",
            ),
            DeclareLaunchArgument(
                "params_file",
                default_value="",
                description="The parameter file of the bridge, if it has one.",
            ),
            *(
                DeclareLaunchArgument(name, default_value="", description=f"As {name} of the bridge.")
                for name in ("namespace", "use_sim_time", *OPTIONS, *LIST_OPTIONS)
            ),
            OpaqueFunction(function=rviz),
        ]
    )
