"""Launch one bridge: the robots of an OpenUSD asset as ROS 2 topics, services, actions and frames.

    ros2 launch usd_ros_bridge bridge.launch.py asset:=robot.usda namespace:=robot1

An empty argument leaves its parameter to the parameter file, else to the node's default. A given argument has
precedence over the file.
"""

from __future__ import annotations

import json
from pathlib import Path

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction
from launch.conditions import IfCondition
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration, TextSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterFile, ParameterValue

# The node parameters that have a launch argument of the same name, and their types.
NODE_PARAMETERS = {
    "asset": str,
    "strict": bool,
    "degraded": str,
    "backend": str,
    "real_time_factor": float,
    "start_paused": bool,
    "publish_clock": bool,
    "clock_rate": float,
    "simulation_services": bool,
    "tf_rate": float,
    "tf_output": str,
    "publish_tf": bool,
    "base_transform": str,
    "frame_prefix": str,
    "publish_description": bool,
    "mesh_directory": str,
    "mesh_uris": str,
    "publish_plan": bool,
    "publish_diagnostics": bool,
    "controller_rate": float,
    "record": str,
    "duration": float,
    "foxglove": int,
    "foxglove_host": str,
    "foxglove_control": bool,
    "beyond_limits": str,
    "massless_bodies": str,
    "payloads": str,
    "interfaces": str,
    "shard": str,
    "watch": bool,
    "reload_timeout": float,
    "max_prims": int,
    "max_layers": int,
    "max_bytes": int,
    "max_nesting": int,
    "max_arcs": int,
    "remote_control": str,
    "use_sim_time": bool,
}

KINDS = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "texts, separated by commas",
}

# Parameters that are lists of strings. Their launch arguments are separated by commas.
LIST_PARAMETERS = ("variants", "contexts", "packages", "spawn_roots", "foxglove_origins")


def given_parameters(context: LaunchContext) -> dict[str, ParameterValue]:
    """Return the node parameters whose launch arguments are not empty.

    Raises:
        ValueError: An argument has a value of another type; the message names it.
    """
    given = {
        name: ParameterValue(LaunchConfiguration(name), value_type=value_type)
        for name, value_type in NODE_PARAMETERS.items()
        if LaunchConfiguration(name).perform(context)
    }
    for name in LIST_PARAMETERS:
        text = LaunchConfiguration(name).perform(context).strip()
        if text:
            as_yaml = text if is_yaml_list(text) else yaml_list(name, text)
            given[name] = ParameterValue(TextSubstitution(text=as_yaml), value_type=list[str])
    for name, value in given.items():
        check_type(context, name, value)
    return given


def is_yaml_list(text: str) -> bool:
    """Return whether a text is a YAML list, which passes unchanged. A glob may begin with a bracket, too."""
    return text.startswith("[") and text.endswith("]")


def yaml_list(name: str, text: str) -> str:
    """Return comma-separated text as a YAML list. The characters of globs mean something else in YAML: quote them."""
    entries = [each.strip() for each in text.split(",")]
    quoted = name in ("contexts", "foxglove_origins")
    return json.dumps([each for each in entries if each]) if quoted else f"[{text}]"


def check_type(context: LaunchContext, name: str, value: ParameterValue) -> None:
    """Raise ValueError, which names the argument, if its text is not of the parameter's type."""
    try:
        value.evaluate(context)
    except Exception as error:
        text = LaunchConfiguration(name).perform(context)
        kind = KINDS[NODE_PARAMETERS.get(name, list)]
        raise ValueError(f"launch argument {name}:={text} is not possible: it takes {kind}") from error


def bridge_node(context: LaunchContext) -> list[Node]:
    """Return the bridge's node, with the parameter file first and the given arguments over it.

    Without a file nothing but the given arguments is set, so that SetParameter around this file has its effect.
    """
    params_file = LaunchConfiguration("params_file").perform(context)
    return [
        Node(
            package="usd_ros_bridge",
            executable="bridge",
            name=LaunchConfiguration("node_name").perform(context) or None,
            namespace=LaunchConfiguration("namespace"),
            parameters=[*([ParameterFile(params_file)] if params_file else []), given_parameters(context)],
            ros_arguments=["--log-level", LaunchConfiguration("log_level")],
            respawn=LaunchConfiguration("respawn"),
            respawn_delay=2.0,
            output="both",
        )
    ]


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments and the bridge's node."""
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "asset",
                description="The OpenUSD asset: a path (relative to the current directory) or "
                "package://NAME/PATH. Required.",
            ),
            DeclareLaunchArgument(
                "strict",
                default_value="",
                description="Refuse an asset with an error (true or false). Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "degraded",
                default_value="",
                description="How to treat an asset with properties that are not simulated as authored (warn or "
                "error). Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "packages",
                default_value="",
                description="Directories of package://NAME/..., as NAME=DIRECTORY, separated by commas. "
                "Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "backend",
                default_value="",
                description="The source of the robot's state: auto, mujoco, kinematic, null, playback, "
                "joint_states, or another installed backend. Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "real_time_factor",
                default_value="",
                description="Seconds of simulated time in a second, if the backend simulates; 0: as many as "
                "possible. Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "start_paused",
                default_value="",
                description="Start with simulated time paused (true or false). Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "publish_clock",
                default_value="",
                description="Publish simulated time on /clock (true or false). Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "clock_rate",
                default_value="",
                description="Highest rate of /clock, in Hz of simulated time. Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "simulation_services",
                default_value="",
                description="Offer the services of simulation_interfaces if the backend simulates (true or "
                "false). Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "namespace",
                default_value="",
                description="The node's namespace: the outermost segment of every relative name of the "
                "asset. An absolute namespace in the asset drops it.",
            ),
            DeclareLaunchArgument(
                "node_name",
                default_value="",
                description="The node's name. Empty: usd_ros_bridge.",
            ),
            DeclareLaunchArgument(
                "variants",
                default_value="",
                description="Variant selections /Prim/Path:set=choice, separated by commas. Empty: as in "
                "params_file, else as authored.",
            ),
            DeclareLaunchArgument(
                "contexts",
                default_value="",
                description="Prim paths, namespaces or globs of them, separated by commas: serve only these "
                "robots. Empty: as in params_file, else all.",
            ),
            DeclareLaunchArgument(
                "shard",
                default_value="",
                description="K/N: serve only part K of N of the robots in contexts. Empty: as in params_file, "
                "else all of them.",
            ),
            DeclareLaunchArgument(
                "tf_rate",
                default_value="",
                description="Rate of /tf, in Hz. Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "tf_output",
                default_value="",
                choices=["", "namespaced", "global", "both", "shared"],
                description="Topics of transforms: namespaced (<namespace>/tf, frame ids as authored), "
                "global (/tf, frame ids prefixed with the namespace), both, or shared (/tf, frame ids as "
                "authored). Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "publish_tf",
                default_value="",
                description="Publish transforms (true or false). Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "base_transform",
                default_value="",
                choices=["", "auto", "ground_truth", "odometry", "none"],
                description="Source of the base's transform: ground_truth, odometry, none, or auto. Empty: "
                "as in params_file.",
            ),
            DeclareLaunchArgument(
                "frame_prefix",
                default_value="",
                description="Prefix of every frame id. Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "publish_description",
                default_value="",
                description="Publish each robot as URDF on robot_description (true or false). Empty: as in "
                "params_file.",
            ),
            DeclareLaunchArgument(
                "mesh_directory",
                default_value="",
                description="Directory for the mesh files of descriptions. Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "mesh_uris",
                default_value="",
                description="How viewers get the mesh files: auto, package, file, service, http, http:PORT or "
                "http:ADDRESS:PORT. Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "publish_plan",
                default_value="",
                description="Publish the summary of the plan on ~/plan once everything is ready (true or false). "
                "Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "publish_diagnostics",
                default_value="",
                description="Publish /diagnostics (true or false). Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "controller_rate",
                default_value="",
                description="Lowest rate of controllers that have something to do, in Hz. Empty: as in "
                "params_file.",
            ),
            DeclareLaunchArgument(
                "record",
                default_value="",
                description="Record all messages that the bridge publishes to this MCAP file. Empty: as in "
                "params_file.",
            ),
            DeclareLaunchArgument(
                "duration",
                default_value="",
                description="End after this much bridge time, in s. Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "foxglove",
                default_value="",
                description="Serve the Foxglove app, which only looks without foxglove_control, on this port, 8765 for "
                "example. Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "foxglove_host",
                default_value="",
                description="Address of the server for Foxglove. Every program that reaches it sees everything, and "
                "drives the robots with foxglove_control. Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "foxglove_control",
                default_value="",
                description="Let Foxglove apps drive: publish, call services, get and set parameters (true or "
                "false). Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "foxglove_origins",
                default_value="",
                description="Origins of further web pages that may connect to the server for Foxglove, separated by "
                "commas. Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "beyond_limits",
                default_value="",
                choices=["", "reject", "clamp"],
                description="Reject or clamp goals and trajectories with positions beyond a joint's limits. "
                "Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "massless_bodies",
                default_value="",
                choices=["", "auto", "unit_mass", "weightless"],
                description="Mass of bodies without mass: unit_mass, weightless, or auto, as the asset says. "
                "Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "payloads",
                default_value="",
                choices=["", "all", "none"],
                description="Load all payloads of the asset, or none. Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "interfaces",
                default_value="",
                choices=["", "all", "none"],
                description="Serve all topics, services, actions and controllers of the asset, or none. "
                "Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "spawn_roots",
                default_value="",
                description="Directories whose USD files simulation_interfaces may spawn, separated by "
                "commas. Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "watch",
                default_value="",
                description="Read the asset's files again when they change on disk (true or false). Empty: "
                "as in params_file.",
            ),
            DeclareLaunchArgument(
                "reload_timeout",
                default_value="",
                description="Longest time to read the asset's files again, in seconds. Empty: as in "
                "params_file.",
            ),
            DeclareLaunchArgument(
                "max_prims",
                default_value="",
                description="Refuse an asset with more prims of the composed stage. Empty: as in "
                "params_file.",
            ),
            DeclareLaunchArgument(
                "max_layers",
                default_value="",
                description="Refuse an asset with more layer files. Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "max_bytes",
                default_value="",
                description="Refuse an asset with more bytes in all layer files. Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "max_nesting",
                default_value="",
                description="Refuse an asset with more levels of prims, or of brackets in a text layer. "
                "Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "max_arcs",
                default_value="",
                description="Refuse an asset with more composition arcs of one prim, or API schemas applied "
                "to it. Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "remote_control",
                default_value="",
                choices=["", "all", "read_only", "none"],
                description="What other nodes may do through the node's services and parameters: all, "
                "read_only or none. Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "use_sim_time",
                default_value="",
                description="Follow /clock instead of the wall clock (true or false). Empty: as in "
                "params_file.",
            ),
            DeclareLaunchArgument(
                "params_file",
                default_value="",
                description="A ROS 2 parameter file, for example the changed lines of config/bridge.yaml. "
                "Arguments that are not empty have precedence.",
            ),
            DeclareLaunchArgument(
                "respawn",
                default_value="false",
                description="Start the node again, 2 s after it ended by itself.",
            ),
            DeclareLaunchArgument(
                "log_level",
                default_value="info",
                description="The node's log level: debug, info, warn, error or fatal; or LOGGER:=LEVEL.",
            ),
            DeclareLaunchArgument(
                "rviz",
                default_value="false",
                choices=["true", "false"],
                description="Start RViz, with a configuration that is made from the asset. With several "
                "robots, an empty tf_output is then both.",
            ),
            DeclareLaunchArgument(
                "rviz_config",
                default_value="",
                description="An .rviz file of your own for rviz:=true. Empty: made from the asset.",
            ),
            # Before the bridge: it may choose tf_output. The arguments have the same names there.
            IncludeLaunchDescription(
                PythonLaunchDescriptionSource(str(Path(__file__).resolve().with_name("rviz.launch.py"))),
                condition=IfCondition(LaunchConfiguration("rviz")),
            ),
            OpaqueFunction(function=bridge_node),
        ]
    )
