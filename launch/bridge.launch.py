"""Launch one bridge: the robots of an OpenUSD asset as ROS 2 topics, services, actions and frames.

    ros2 launch usd_ros_bridge bridge.launch.py asset:=robot.usda namespace:=robot1

An argument that is left empty leaves its parameter to the parameter file, and what the file does not set to
the node: what is typed on the command line wins, and nothing that is not typed hides a line of the file.
"""

from __future__ import annotations

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution, TextSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterFile, ParameterValue
from launch_ros.substitutions import FindPackageShare

# The node parameters that have a launch argument of the same name, and their types.
NODE_PARAMETERS = {
    "asset": str,
    "backend": str,
    "real_time_factor": float,
    "start_paused": bool,
    "publish_clock": bool,
    "clock_rate": float,
    "tf_rate": float,
    "tf_output": str,
    "publish_tf": bool,
    "frame_prefix": str,
    "publish_description": bool,
    "mesh_directory": str,
    "publish_diagnostics": bool,
    "controller_rate": float,
    "payloads": str,
    "watch": bool,
    "use_sim_time": bool,
}


def given_parameters(context: LaunchContext) -> dict[str, ParameterValue]:
    """Return the node parameters whose launch arguments are not empty."""
    given = {
        name: ParameterValue(LaunchConfiguration(name), value_type=value_type)
        for name, value_type in NODE_PARAMETERS.items()
        if LaunchConfiguration(name).perform(context)
    }
    variants = LaunchConfiguration("variants").perform(context).strip()
    if variants:
        # A YAML list passes as it is; the comma-separated form becomes one.
        as_yaml = variants if variants.startswith("[") else f"[{variants}]"
        given["variants"] = ParameterValue(TextSubstitution(text=as_yaml), value_type=list[str])
    return given


def bridge_node(context: LaunchContext) -> list[Node]:
    """Return the bridge's node, with the parameter file first and the given arguments over it."""
    return [
        Node(
            package="usd_ros_bridge",
            executable="bridge",
            namespace=LaunchConfiguration("namespace"),
            parameters=[ParameterFile(LaunchConfiguration("params_file")), given_parameters(context)],
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
                description="The OpenUSD asset to load: a path (relative to the current directory) or "
                "package://NAME/PATH. Required.",
            ),
            DeclareLaunchArgument(
                "backend",
                default_value="",
                description="What moves the robot: auto, mujoco, kinematic, null, playback, joint_states, or "
                "any other installed backend. Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "real_time_factor",
                default_value="",
                description="Seconds of simulated time in a second where the backend simulates; 0 for as many as "
                "possible. Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "start_paused",
                default_value="",
                description="Whether simulated time stands still at first (true or false). Empty: as in "
                "params_file.",
            ),
            DeclareLaunchArgument(
                "publish_clock",
                default_value="",
                description="Whether simulated time is published on /clock (true or false). Empty: as in "
                "params_file.",
            ),
            DeclareLaunchArgument(
                "clock_rate",
                default_value="",
                description="How often /clock is published at most, in Hz of simulated time. Empty: as in "
                "params_file.",
            ),
            DeclareLaunchArgument(
                "namespace",
                default_value="",
                description="The node's namespace, the outermost segment of every relative name the asset "
                "declares. An absolute namespace in the asset resets it.",
            ),
            DeclareLaunchArgument(
                "variants",
                default_value="",
                description="Variant selections /Prim/Path:set=choice, separated by commas. Empty: as in "
                "params_file, else as authored.",
            ),
            DeclareLaunchArgument(
                "tf_rate",
                default_value="",
                description="How often /tf is published, in Hz. Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "tf_output",
                default_value="",
                choices=["", "namespaced", "global", "both", "shared"],
                description="Where transforms go: namespaced (<namespace>/tf, frame ids as authored), global "
                "(/tf, frame ids prefixed with the namespace), both, or shared (/tf, frame ids as authored). "
                "Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "publish_tf",
                default_value="",
                description="Whether to publish transforms at all (true or false). Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "frame_prefix",
                default_value="",
                description="A prefix for every frame id. Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "publish_description",
                default_value="",
                description="Whether to describe each robot, as URDF, on its robot_description (true or false). "
                "Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "mesh_directory",
                default_value="",
                description="Where mesh files are put that descriptions name. Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "publish_diagnostics",
                default_value="",
                description="Whether to tell on /diagnostics how everything is (true or false). Empty: as in "
                "params_file.",
            ),
            DeclareLaunchArgument(
                "controller_rate",
                default_value="",
                description="How often controllers act at least while they have something to do, in Hz. Empty: "
                "as in params_file.",
            ),
            DeclareLaunchArgument(
                "payloads",
                default_value="",
                choices=["", "all", "none"],
                description="Whether the asset's payloads are loaded. Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "watch",
                default_value="",
                description="Whether the asset's files are read again where they change on disk (true or false). "
                "Empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "use_sim_time",
                default_value="",
                description="Whether to follow /clock instead of the wall clock (true or false). Empty: as "
                "in params_file.",
            ),
            DeclareLaunchArgument(
                "params_file",
                default_value=PathJoinSubstitution(
                    [FindPackageShare("usd_ros_bridge"), "config", "bridge.yaml"]
                ),
                description="A ROS 2 parameter file for the node; arguments that are not empty win over it.",
            ),
            DeclareLaunchArgument(
                "respawn",
                default_value="false",
                description="Whether to start the node again, 2 s later, when it ends by itself.",
            ),
            DeclareLaunchArgument(
                "log_level",
                default_value="info",
                description="The node's log level: debug, info, warn, error or fatal; or LOGGER:=LEVEL.",
            ),
            OpaqueFunction(function=bridge_node),
        ]
    )
