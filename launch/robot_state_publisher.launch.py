"""Launch robot_state_publisher for an OpenUSD asset, from this package or from the package robot_state_publisher.

    ros2 launch usd_ros_bridge robot_state_publisher.launch.py asset:=robot.usda
    ros2 launch usd_ros_bridge robot_state_publisher.launch.py asset:=robot.usda package:=robot_state_publisher

Both nodes have the same name, parameters and topics: a launch file that includes this one changes between them by the
argument `package`. The other package's node gets its robot_description from the asset, too, unless one is given.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction
from launch.conditions import IfCondition
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import Command, LaunchConfiguration, TextSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import ExecutableInPackage

NAME = "robot_state_publisher"
OWN_PACKAGE = "usd_ros_bridge"

# Parameters of both nodes, then parameters of our node only, with their types.
SHARED_PARAMETERS = {
    "publish_frequency": float,
    "ignore_timestamp": bool,
    "frame_prefix": str,
    "use_sim_time": bool,
}
OWN_PARAMETERS = {"asset": str, "mesh_directory": str}
KINDS = {str: "text", bool: "true or false", float: "a number"}


def given(context: LaunchContext, names: dict[str, type]) -> dict[str, ParameterValue]:
    """Return the parameters among those names whose launch arguments are not empty.

    Raises:
        ValueError: An argument has a value of another type; the message names it.
    """
    values = {
        name: ParameterValue(LaunchConfiguration(name), value_type=value_type)
        for name, value_type in names.items()
        if LaunchConfiguration(name).perform(context)
    }
    for name, value in values.items():
        try:
            value.evaluate(context)
        except Exception as error:
            text, kind = LaunchConfiguration(name).perform(context), KINDS[names[name]]
            raise ValueError(f"launch argument {name}:={text} is not possible: it takes {kind}") from error
    return values


def variant_list(context: LaunchContext) -> list[str]:
    """Return the variant selections that were given."""
    text = LaunchConfiguration("variants").perform(context)
    return [each.strip() for each in text.split(",") if each.strip()]


def parameters(context: LaunchContext) -> dict[str, ParameterValue]:
    """Return the node's parameters."""
    values = given(context, SHARED_PARAMETERS)
    variants = variant_list(context)
    if LaunchConfiguration("package").perform(context) == OWN_PACKAGE:
        values |= given(context, OWN_PARAMETERS)
        if variants:
            values["variants"] = ParameterValue(
                TextSubstitution(text=f"[{', '.join(variants)}]"), value_type=list[str]
            )
        return values
    description = LaunchConfiguration("robot_description")
    if not description.perform(context):
        asset, meshes = (LaunchConfiguration(name).perform(context) for name in ("asset", "mesh_directory"))
        # The Python of `ros2 launch` may lack OpenUSD; the executable starts the one it was installed with.
        command_line = ExecutableInPackage(OWN_PACKAGE, OWN_PACKAGE).perform(context)
        words = [command_line, "urdf", asset]
        words += ["--meshes", meshes] if meshes else []
        words += [word for variant in variants for word in ("--variant", variant)]
        # stderr lists what URDF cannot express. That is no error.
        description = Command(shlex.join(words), on_stderr="ignore")
    values["robot_description"] = ParameterValue(description, value_type=str)
    return values


def publisher(context: LaunchContext) -> list[Node]:
    """Return the node."""
    return [
        Node(
            package=LaunchConfiguration("package"),
            executable=NAME,
            name=NAME,
            namespace=LaunchConfiguration("namespace"),
            parameters=[parameters(context)],
            ros_arguments=["--log-level", LaunchConfiguration("log_level")],
            respawn=LaunchConfiguration("respawn"),
            respawn_delay=2.0,
            output="both",
        )
    ]


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments and the node."""
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "asset",
                default_value="",
                description="The OpenUSD asset: a path (relative to the current directory) or "
                "package://NAME/PATH. Required, except for the other package's node with a "
                "robot_description.",
            ),
            DeclareLaunchArgument(
                "package",
                default_value=OWN_PACKAGE,
                choices=[OWN_PACKAGE, NAME],
                description="Package of the node: usd_ros_bridge, or robot_state_publisher (in C++).",
            ),
            DeclareLaunchArgument(
                "robot_description",
                default_value="",
                description="URDF text for the node of the package robot_state_publisher. Empty: generated "
                "from the asset.",
            ),
            DeclareLaunchArgument(
                "namespace",
                default_value="",
                description="The node's namespace, also of joint_states and robot_description.",
            ),
            DeclareLaunchArgument(
                "variants",
                default_value="",
                description="Variant selections /Prim/Path:set=choice of the asset, separated by commas.",
            ),
            DeclareLaunchArgument(
                "publish_frequency",
                default_value="",
                description="Highest rate of /tf, in Hz. Empty: 20.",
            ),
            DeclareLaunchArgument(
                "ignore_timestamp",
                default_value="",
                description="Use every message on joint_states, however old (true or false). Empty: false.",
            ),
            DeclareLaunchArgument(
                "frame_prefix",
                default_value="",
                description="Prefix of every frame id. Empty: none.",
            ),
            DeclareLaunchArgument(
                "use_sim_time",
                default_value="",
                description="Follow /clock instead of the wall clock (true or false). Empty: false.",
            ),
            DeclareLaunchArgument(
                "mesh_directory",
                default_value="",
                description="Directory for the mesh files of the description. Empty: the user's cache.",
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
                description="Start RViz, with a configuration that is made from the asset.",
            ),
            DeclareLaunchArgument(
                "rviz_config",
                default_value="",
                description="An .rviz file of your own for rviz:=true. Empty: made from the asset.",
            ),
            IncludeLaunchDescription(
                PythonLaunchDescriptionSource(str(Path(__file__).resolve().with_name("rviz.launch.py"))),
                # What both nodes send, whatever the asset declares.
                launch_arguments={
                    "tf_output": "shared",
                    "base_transform": "none",
                    "interfaces": "none",
                    "backend": "joint_states",
                }.items(),
                condition=IfCondition(LaunchConfiguration("rviz")),
            ),
            OpaqueFunction(function=publisher),
        ]
    )
