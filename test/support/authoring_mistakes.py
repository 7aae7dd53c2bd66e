"""Thirty mistakes that authors make, each an edit of a copy of an example, and what must be said about it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """One mistake in an otherwise right asset.

    Attributes:
        number: Its number, from 1; a letter follows where one kind of mistake has several forms.
        title: What the author did.
        asset: Folder of the example, whose entry layer has the same name.
        layer: Layer that is edited.
        old: Text that occurs once in it.
        new: Text that takes its place.
        code: Code of the diagnostic.
        severity: Its severity.
        path: Path of its prim.
        attribute: Name of its property, "" for none.
        says: Words of the cause and the remedy.
        at: Text of the line that the diagnostic names, "" for a diagnostic without a line.
        at_layer: Layer of that line, "" for the edited one.
        then: Code of the error that follows from it, "" for none.
        never: Codes of diagnostics that would follow from the mistake and must not be said.
    """

    number: str
    title: str
    asset: str = "rover"
    layer: str = "ros.usda"
    old: str
    new: str
    code: str
    severity: str
    path: str
    attribute: str = ""
    says: tuple[str, ...]
    at: str
    at_layer: str = ""
    then: str = ""
    never: tuple[str, ...] = field(default=())

    def make(self, folder: Path) -> Path:
        """Copy the example into a folder, make the mistake, and return the entry layer."""
        return make([self], folder)


def make(mistakes: Sequence[Mistake], folder: Path) -> Path:
    """Copy the example into a folder, make all of these mistakes in it, and return the entry layer."""
    (example,) = {each.asset for each in mistakes}
    copy = folder / example
    shutil.copytree(EXAMPLES / example, copy)
    for mistake in mistakes:
        edited = copy / mistake.layer
        text = edited.read_text(encoding="utf-8")
        assert text.count(mistake.old) == 1, (
            f"{mistake.old!r} occurs {text.count(mistake.old)} times in {edited}"
        )
        edited.write_text(text.replace(mistake.old, mistake.new), encoding="utf-8")
    return copy / f"{example}.usda"


SCAN = """    {
        string ros:topic:name = "scan"
        double ros:topic:publish_rate = 10
"""
RATE = "        double ros:topic:publish_rate = 10\n"
ROLE = '        token ros:topic:role = "publisher"\n        string ros:topic:type = "sensor_msgs/msg/LaserScan"\n'
LASER = '"sensor_msgs/msg/LaserScan"'
LIDAR = "/rover/lidar_link"
LEFT_BODY = "        rel physics:body1 = </rover/left_wheel>\n"
LEFT = "/rover/left_wheel_joint"

MISTAKES = (
    Mistake(
        number="1",
        title="ros:topic:* without RosTopicAPI",
        old='prepend apiSchemas = ["RosFrameAPI", "RosTopicAPI"]\n    )\n    {\n        string ros:topic:name = "scan"',
        new='prepend apiSchemas = ["RosFrameAPI"]\n    )\n    {\n        string ros:topic:name = "scan"',
        code="schema.applied",
        severity="error",
        path=LIDAR,
        attribute="ros:topic:name",
        says=("RosTopicAPI is not applied", "there is no topic", 'prepend apiSchemas = ["RosTopicAPI"]'),
        at='ros:topic:name = "scan"',
    ),
    Mistake(
        number="2",
        title="RosTopicApi",
        old='prepend apiSchemas = ["RosFrameAPI", "RosTopicAPI"]\n    )\n    {\n        string ros:topic:name = "scan"',
        new='prepend apiSchemas = ["RosFrameAPI", "RosTopicApi"]\n    )\n    {\n        string ros:topic:name = "scan"',
        code="schema.applied",
        severity="error",
        path=LIDAR,
        attribute="apiSchemas",
        says=("RosTopicApi", "did you mean RosTopicAPI?"),
        at="RosTopicApi",
    ),
    Mistake(
        number="3",
        title="ros:topic:qos:reliabilty",
        old='token ros:topic:qos:reliability = "reliable"',
        new='token ros:topic:qos:reliabilty = "reliable"',
        code="schema.attribute",
        severity="warning",
        path=LIDAR,
        attribute="ros:topic:qos:reliabilty",
        says=("did you mean ros:topic:qos:reliability?", "default"),
        at="reliabilty",
    ),
    Mistake(
        number="4",
        title="ros:context:namespce",
        old='ros:context:namespace = "rover"',
        new='ros:context:namespce = "rover"',
        code="schema.attribute",
        severity="warning",
        path="/rover",
        attribute="ros:context:namespce",
        says=("did you mean ros:context:namespace?", "namespace is empty"),
        at="namespce",
    ),
    Mistake(
        number="5",
        title="ros:joint:nam",
        old='custom string ros:joint:name = "caster_joint"',
        new='custom string ros:joint:nam = "caster_joint"',
        code="schema.attribute",
        severity="warning",
        path="/rover/caster_joint",
        attribute="ros:joint:nam",
        says=("did you mean ros:joint:name?",),
        at="ros:joint:nam ",
    ),
    Mistake(
        number="6",
        title="usd_ros_bridge:laser:range_max",
        layer="sensors.usda",
        old="custom double usd_ros_bridge:lidar:range_max = 12",
        new="custom double usd_ros_bridge:laser:range_max = 12",
        code="schema.attribute",
        severity="warning",
        path=LIDAR,
        attribute="usd_ros_bridge:laser:range_max",
        says=("did you mean usd_ros_bridge:lidar:range_max",),
        at="laser:range_max",
    ),
    Mistake(
        number="7",
        title="usd_ros_bridge:lidar:range_mx",
        layer="sensors.usda",
        old="custom double usd_ros_bridge:lidar:range_max = 12",
        new="custom double usd_ros_bridge:lidar:range_mx = 12",
        code="schema.attribute",
        severity="warning",
        path=LIDAR,
        attribute="usd_ros_bridge:lidar:range_mx",
        says=("did you mean usd_ros_bridge:lidar:range_max",),
        at="range_mx",
    ),
    Mistake(
        number="8",
        title="ros:topic:nmae",
        old='string ros:topic:name = "scan"',
        new='string ros:topic:nmae = "scan"',
        code="schema.attribute",
        severity="warning",
        path=LIDAR,
        attribute="ros:topic:nmae",
        says=("did you mean ros:topic:name",),
        at="nmae",
        then="2.3.name",
    ),
    Mistake(
        number="9",
        title="a misspelt message type",
        old=LASER,
        new='"sensor_msgs/msg/LaserScn"',
        code="2.3.type",
        severity="warning",
        path=LIDAR,
        attribute="ros:topic:type",
        says=("sensor_msgs is installed and has no msg/LaserScn", "did you mean sensor_msgs/msg/LaserScan"),
        at="LaserScn",
    ),
    Mistake(
        number="10",
        title="a type without msg",
        old=LASER,
        new='"sensor_msgs/LaserScan"',
        code="2.3.type",
        severity="error",
        path=LIDAR,
        attribute="ros:topic:type",
        says=("is not of the form package/msg/Type", "write sensor_msgs/msg/LaserScan"),
        at="sensor_msgs/LaserScan",
    ),
    Mistake(
        number="11",
        title="a type of a package that is not installed",
        old=LASER,
        new='"radar_msgs/msg/RadarScan"',
        code="2.3.type",
        severity="warning",
        path=LIDAR,
        attribute="ros:topic:type",
        says=("the package radar_msgs is not installed", "install or source the package radar_msgs"),
        at="radar_msgs/msg/RadarScan",
    ),
    Mistake(
        number="12",
        title="a sensor's attribute of the wrong type",
        layer="sensors.usda",
        old="custom double usd_ros_bridge:lidar:range_max = 12",
        new='custom string usd_ros_bridge:lidar:range_max = "12"',
        code="1.4.sensor",
        severity="error",
        path=LIDAR,
        attribute="usd_ros_bridge:lidar:range_max",
        says=("'12' is not a number", "author a number of 0 to"),
        at="range_max",
    ),
    Mistake(
        number="13",
        title="a publish_rate that is text",
        old=RATE,
        new='        string ros:topic:publish_rate = "10"\n',
        code="2.4.publish_rate",
        severity="error",
        path=LIDAR,
        attribute="ros:topic:publish_rate",
        says=("string", "double"),
        at='publish_rate = "10"',
    ),
    Mistake(
        number="14",
        title="a publisher without a publish_rate",
        old=RATE,
        new="",
        code="2.4.publish_rate",
        severity="error",
        path=LIDAR,
        attribute="ros:topic:publish_rate",
        says=("no publish_rate is authored", "author a rate"),
        at="apiSchemas",
    ),
    Mistake(
        number="15a",
        title="the role pub",
        old=ROLE,
        new=ROLE.replace("publisher", "pub"),
        code="2.4.role",
        severity="error",
        path=LIDAR,
        attribute="ros:topic:role",
        says=("the role 'pub' is unknown", "use one of publisher, subscription"),
        at='"pub"',
    ),
    Mistake(
        number="15b",
        title="the role Publisher",
        old=ROLE,
        new=ROLE.replace("publisher", "Publisher"),
        code="2.4.role",
        severity="error",
        path=LIDAR,
        attribute="ros:topic:role",
        says=("the role 'Publisher' is unknown", "did you mean publisher?"),
        at='"Publisher"',
    ),
    Mistake(
        number="16",
        title="the QoS token besteffort",
        old='ros:topic:qos:reliability = "reliable"',
        new='ros:topic:qos:reliability = "besteffort"',
        code="2.4.qos.reliability",
        severity="error",
        path=LIDAR,
        attribute="ros:topic:qos:reliability",
        says=("the reliability 'besteffort' is unknown", "did you mean best_effort?"),
        at="besteffort",
    ),
    Mistake(
        number="17a",
        title="a name with a space",
        old='ros:topic:name = "scan"',
        new='ros:topic:name = "front scan"',
        code="2.3.name",
        severity="error",
        path=LIDAR,
        attribute="ros:topic:name",
        says=("has a character other than letters, digits, '_' and '/'", "write front_scan"),
        at="front scan",
    ),
    Mistake(
        number="17b",
        title="a private name",
        old='ros:topic:name = "scan"',
        new='ros:topic:name = "~/scan"',
        code="2.3.name",
        severity="error",
        path=LIDAR,
        attribute="ros:topic:name",
        says=("has a runtime substitution", "write scan"),
        at="~/scan",
    ),
    Mistake(
        number="18",
        title="a namespace with a hyphen",
        old='ros:context:namespace = "rover"',
        new='ros:context:namespace = "cell-1"',
        code="2.1.namespace",
        severity="error",
        path="/rover",
        attribute="ros:context:namespace",
        says=("'cell-1' has a character other than", "write cell_1", "is left out"),
        at="cell-1",
    ),
    Mistake(
        number="19",
        title="an absolute name in a namespace",
        old='ros:topic:name = "scan"',
        new='ros:topic:name = "/scan"',
        code="2.3.absolute",
        severity="info",
        path=LIDAR,
        attribute="ros:topic:name",
        says=("ignores the namespace /rover", "write scan for /rover/scan"),
        at='"/scan"',
    ),
    Mistake(
        number="20",
        title="a sensor outside of the robot",
        layer="rover.usda",
        old='    kind = "component"\n)\n{\n}\n',
        new='    kind = "component"\n)\n{\n}\n\ndef Xform "beacon" (\n    prepend apiSchemas = ["RosTopicAPI"]\n)\n{\n'
        '    string ros:topic:name = "beacon"\n    double ros:topic:publish_rate = 1\n'
        '    token ros:topic:role = "publisher"\n    string ros:topic:type = "sensor_msgs/msg/Range"\n}\n',
        code="2.1.context",
        severity="warning",
        path="/beacon",
        says=("is below no RosContextAPI", "move it below the robot's root prim"),
        at='def Xform "beacon"',
    ),
    Mistake(
        number="21",
        title="a joint whose body1 is an Xform below the body",
        layer="physics.usda",
        old=LEFT_BODY,
        new=LEFT_BODY.replace("left_wheel", "left_wheel/visual"),
        code="1.3.joint.body",
        severity="info",
        path=LEFT,
        attribute="physics:body1",
        says=(
            "'/rover/left_wheel/visual' is no rigid body",
            "/rover/left_wheel, is taken",
            "name /rover/left_wheel",
        ),
        at="left_wheel/visual",
    ),
    Mistake(
        number="22a",
        title="a joint without bodies",
        layer="physics.usda",
        old="        rel physics:body0 = </rover>\n" + LEFT_BODY,
        new="",
        code="1.3.joint.target",
        severity="error",
        path=LEFT,
        attribute="physics:body1",
        says=("physics:body0 and physics:body1 name nothing", "name a rigid body", "/rover/left_wheel"),
        at="left_wheel_joint",
        at_layer="physx.usda",
    ),
    Mistake(
        number="22b",
        title="a joint to a missing prim",
        layer="physics.usda",
        old=LEFT_BODY,
        new=LEFT_BODY.replace("left_wheel", "left_whel"),
        code="1.3.joint.target",
        severity="error",
        path=LEFT,
        attribute="physics:body1",
        says=("'/rover/left_whel' does not exist", "did you mean /rover/left_wheel"),
        at="left_whel>",
    ),
    Mistake(
        number="23",
        title="a controller of a missing joint",
        old="rel ros:diff_drive:left_wheels = </rover/left_wheel_joint>",
        new="rel ros:diff_drive:left_wheels = </rover/left_whel_joint>",
        code="4.2.3.target",
        severity="error",
        path="/rover/Controllers/diff_drive",
        attribute="ros:diff_drive:left_wheels",
        says=("'/rover/left_whel_joint' is no joint", "did you mean /rover/left_wheel_joint"),
        at="left_whel_joint",
    ),
    Mistake(
        number="24",
        title="a controller with a server of the wrong type",
        asset="arm",
        old='"control_msgs/action/FollowJointTrajectory"',
        new='"control_msgs/action/ParallelGripperCommand"',
        code="4.2.3.target",
        severity="error",
        path="/arm/Controllers/joint_trajectory_controller",
        attribute="ros:joint_trajectory:server",
        says=(
            "is no action server of control_msgs/action/FollowJointTrajectory",
            "it has the type 'control_msgs/action/ParallelGripperCommand'",
            "set ros:action:type of /arm/Interfaces/follow_joint_trajectory to",
            "control_msgs/action/FollowJointTrajectory",
        ),
        at="ros:joint_trajectory:server",
    ),
    Mistake(
        number="25",
        title="two publishers of one name and different types",
        old='string ros:topic:name = "imu"',
        new='string ros:topic:name = "scan"',
        code="2.3.duplicate",
        severity="warning",
        path="/rover/imu_link",
        attribute="ros:topic:name",
        says=(
            "'/rover/scan' has the type 'sensor_msgs/msg/Imu' here",
            "'sensor_msgs/msg/LaserScan' at /rover/lidar_link",
            "give each type a name of its own",
        ),
        at='ros:topic:name = "scan"',
    ),
    Mistake(
        number="26a",
        title="a camera without an optical frame",
        old='over "camera_optical_frame" (\n                prepend apiSchemas = ["RosFrameAPI"]\n            )',
        new='over "camera_optical_frame"',
        code="2.7.sensor",
        severity="warning",
        path="/rover/camera_link/camera/camera_optical_frame/image_raw",
        says=("'camera_link'", "180 degrees", "apply RosFrameAPI"),
        at="image_raw",
    ),
    Mistake(
        number="26b",
        title="a lidar whose frame is elsewhere",
        old='prepend apiSchemas = ["RosFrameAPI", "RosTopicAPI"]\n    )\n    {\n        string ros:topic:name = "scan"',
        new='prepend apiSchemas = ["RosTopicAPI"]\n    )\n    {\n        string ros:topic:name = "scan"',
        code="2.7.sensor",
        severity="warning",
        path=LIDAR,
        says=("'base_link'", "(-0.05, 0, 0.225) m", "apply RosFrameAPI"),
        at="lidar_link",
        at_layer="sensors.usda",
    ),
    Mistake(
        number="27",
        title="package:// of an unknown package",
        layer="base.usda",
        old="payload = @./instances.usda@</lidar>",
        new="payload = @package://rover_meshs/lidar.usda@</lidar>",
        code="1.2.5.package",
        severity="error",
        path="/rover/lidar_link/visual",
        says=("no package 'rover_meshs' is known", "USD_ROS_PACKAGE_PATH"),
        at="package://rover_meshs",
        never=("1.2.5.asset", "1.2.5.muted", "1.2.5.default_prim", "1.2.3.composition"),
    ),
    Mistake(
        number="28",
        title="a referenced file that is missing",
        layer="base.usda",
        old="payload = @./instances.usda@</lidar>",
        new="payload = @./instancs.usda@</lidar>",
        code="1.2.5.asset",
        severity="error",
        path="/rover/lidar_link/visual",
        says=("'instancs.usda'", "correct the path or add the missing file", "did you mean instances.usda"),
        at="instancs.usda",
    ),
    Mistake(
        number="29",
        title="no metersPerUnit",
        layer="rover.usda",
        old="    metersPerUnit = 1\n",
        new="",
        code="1.1.size",
        severity="warning",
        path="",
        attribute="metersPerUnit",
        says=(
            "/rover are 0.0033 m apart at most",
            "look like metres",
            "in centimetres",
            "author metersPerUnit = 1",
        ),
        at="(",
    ),
    Mistake(
        number="30a",
        title="wheels without drives",
        layer="physics.usda",
        old='"left_wheel_joint" (\n        prepend apiSchemas = ["PhysicsDriveAPI:angular"]\n    )',
        new='"left_wheel_joint"',
        code="4.2.3.drive",
        severity="info",
        path="/rover/Controllers/diff_drive",
        says=("left_wheel_joint", "there is no drive", "usd_ros_bridge scaffold", "--drives"),
        at="diff_drive",
        at_layer="sensors.usda",
    ),
    Mistake(
        number="30b",
        title="a controller on a robot that is fixed to the world",
        layer="physics.usda",
        old='    def PhysicsRevoluteJoint "right_wheel_joint"',
        new='    def PhysicsFixedJoint "anchor"\n    {\n        rel physics:body1 = </rover>\n    }\n\n'
        '    def PhysicsRevoluteJoint "right_wheel_joint"',
        code="4.2.3.base",
        severity="warning",
        path="/rover/Controllers/diff_drive",
        says=("is fixed to the world by /rover/anchor", "usd_ros_bridge scaffold", "--free-base"),
        at="diff_drive",
        at_layer="sensors.usda",
    ),
)
