"""A stage of several robots that tests edit while a bridge runs on it."""

from __future__ import annotations

from typing import Any

from pxr import Sdf, Usd

_METADATA = """\
    defaultPrim = "World"
    kilogramsPerUnit = 1
    metersPerUnit = 1
    timeCodesPerSecond = 1
    upAxis = "Z"
"""


def edited_stage() -> Any:
    """An arm, a rover with a variant set, a mast that is no body, and a box, below a default prim that is no robot."""
    layer = Sdf.Layer.CreateAnonymous("edited.usda")
    assert layer.ImportFromString(
        f'#usda 1.0\n(\n{_METADATA})\n\ndef Xform "World"\n{{\n{_arm()}{_rover()}{_MAST}{_BOX}}}\n'
    )
    return Usd.Stage.Open(layer)


def topic(name: str, type_name: str, *, rate: float | None = None, extra: str = "", schemas: str = "") -> str:
    """A publisher where there is a rate, else a subscription."""
    role = "subscription" if rate is None else "publisher"
    authored = "" if rate is None else f"double ros:topic:publish_rate = {rate}\n"
    return f"""
def Xform "{name}" (
    prepend apiSchemas = ["RosTopicAPI"{schemas}]
)
{{
    token ros:topic:role = "{role}"
    string ros:topic:name = "{name}"
    string ros:topic:type = "{type_name}"
    {authored}{extra}
}}
"""


def body(name: str, place: tuple[float, float, float], *, schemas: str = "", inner: str = "") -> str:
    return f"""
def Xform "{name}" (
    prepend apiSchemas = ["PhysicsRigidBodyAPI"{schemas}]
)
{{
    double3 xformOp:translate = {place}
    uniform token[] xformOpOrder = ["xformOp:translate"]
    {inner}
}}
"""


def joint(name: str, kind: str, body0: str, body1: str, extra: str = "") -> str:
    start = f"rel physics:body0 = <{body0}>\n" if body0 else ""
    return f"""
def Physics{kind}Joint "{name}"
{{
    {start}rel physics:body1 = <{body1}>
    {extra}
}}
"""


def _arm() -> str:
    hinge = (
        'uniform token physics:axis = "Z"\nfloat physics:lowerLimit = -90\nfloat physics:upperLimit = 90\n'
    )
    tool = """
def Xform "tool" (
    prepend apiSchemas = ["RosFrameAPI"]
)
{
    double3 xformOp:translate = (0, 0, 0.1)
    uniform token[] xformOpOrder = ["xformOp:translate"]
}
"""
    return f"""
def Xform "arm" (
    prepend apiSchemas = ["RosContextAPI"]
)
{{
    string ros:context:namespace = "arm"
    {topic("joint_states", "sensor_msgs/msg/JointState", rate=50.0)}
    {topic("joint_commands", "sensor_msgs/msg/JointState")}
    {body("base", (0.0, 0.0, 0.0), schemas=', "PhysicsArticulationRootAPI"')}
    {body("upper", (0.0, 0.0, 0.3), inner=topic("upper_pose", "geometry_msgs/msg/PoseStamped", rate=20.0))}
    {body("fore", (0.0, 0.0, 0.6), inner=tool)}
    {joint("anchor", "Fixed", "", "/World/arm/base")}
    {
        joint(
            "shoulder",
            "Revolute",
            "/World/arm/base",
            "/World/arm/upper",
            hinge + "point3f physics:localPos0 = (0, 0, 0.3)",
        )
    }
    {
        joint(
            "elbow",
            "Prismatic",
            "/World/arm/upper",
            "/World/arm/fore",
            'uniform token physics:axis = "X"' + chr(10) + "point3f physics:localPos0 = (0, 0, 0.3)",
        )
    }
    def Scope "follow" (
        prepend apiSchemas = ["RosActionAPI"]
    )
    {{
        token ros:action:role = "server"
        string ros:action:name = "follow_joint_trajectory"
        string ros:action:type = "control_msgs/action/FollowJointTrajectory"
    }}
    def Scope "trajectories" (
        prepend apiSchemas = ["RosControlJointTrajectoryAPI"]
    )
    {{
        rel ros:joint_trajectory:server = </World/arm/follow>
        rel ros:joint_trajectory:command_joints = [</World/arm/shoulder>, </World/arm/elbow>]
    }}
}}
"""


def _rover() -> str:
    wheel = 'uniform token physics:axis = "Y"\n'
    lidar = topic("scan", "sensor_msgs/msg/LaserScan", rate=10.0, schemas=', "RosFrameAPI"')
    cloud = topic("points", "sensor_msgs/msg/PointCloud2", rate=5.0, schemas=', "RosFrameAPI"')
    return f"""
def Xform "rover" (
    prepend apiSchemas = ["RosContextAPI"]
    variants = {{
        string head = "lidar"
    }}
    prepend variantSets = "head"
)
{{
    string ros:context:namespace = "rover"
    {topic("odom", "nav_msgs/msg/Odometry", rate=50.0)}
    {topic("cmd_vel", "geometry_msgs/msg/Twist")}
    {topic("joint_states", "sensor_msgs/msg/JointState", rate=25.0)}
    {
        body(
            "chassis",
            (0.0, 2.0, 0.1),
            schemas=', "PhysicsArticulationRootAPI"',
            inner=topic("imu", "sensor_msgs/msg/Imu", rate=100.0, schemas=', "RosFrameAPI"'),
        )
    }
    {body("left", (0.0, 2.2, 0.1))}
    {body("right", (0.0, 1.8, 0.1))}
    {
        joint(
            "left_joint",
            "Revolute",
            "/World/rover/chassis",
            "/World/rover/left",
            wheel + "point3f physics:localPos0 = (0, 0.2, 0)",
        )
    }
    {
        joint(
            "right_joint",
            "Revolute",
            "/World/rover/chassis",
            "/World/rover/right",
            wheel + "point3f physics:localPos0 = (0, -0.2, 0)",
        )
    }
    def Scope "drive" (
        prepend apiSchemas = ["RosControlDiffDriveAPI"]
    )
    {{
        rel ros:diff_drive:subscriber = </World/rover/cmd_vel>
        rel ros:diff_drive:odom = </World/rover/odom>
        rel ros:diff_drive:left_wheels = </World/rover/left_joint>
        rel ros:diff_drive:right_wheels = </World/rover/right_joint>
        uniform double ros:diff_drive:wheel_separation = 0.4
        uniform double ros:diff_drive:wheel_radius = 0.1
    }}
    def Scope "lamps" (
        prepend apiSchemas = ["RosServiceAPI"]
    )
    {{
        token ros:service:role = "server"
        string ros:service:name = "lamps"
        string ros:service:type = "std_srvs/srv/SetBool"
    }}
    variantSet "head" = {{
        "bare" {{
        }}
        "lidar" {{
            over "chassis"
            {{
                {lidar}
            }}
        }}
        "both" {{
            over "chassis"
            {{
                {lidar}{cloud}
            }}
        }}
    }}
}}
"""


_MAST = f"""
def Xform "mast" (
    prepend apiSchemas = ["RosContextAPI"]
)
{{
    string ros:context:namespace = "mast"
    string ros:context:parent_frame = "map"
    double3 xformOp:translate = (5, 0, 2)
    uniform token[] xformOpOrder = ["xformOp:translate"]
    def Xform "head" (
        prepend apiSchemas = ["RosFrameAPI"]
    )
    {{
        double3 xformOp:translate = (0, 0, 0.5)
        uniform token[] xformOpOrder = ["xformOp:translate"]
        {topic("view", "geometry_msgs/msg/PoseStamped", rate=10.0)}
        {topic("range", "sensor_msgs/msg/Range", rate=10.0, schemas=', "RosFrameAPI"')}
    }}
    def Scope "reset_client" (
        prepend apiSchemas = ["RosServiceAPI"]
    )
    {{
        token ros:service:role = "client"
        string ros:service:name = "reset"
        string ros:service:type = "std_srvs/srv/Trigger"
    }}
}}
"""

_BOX = body("box", (3.0, 0.0, 0.0))
