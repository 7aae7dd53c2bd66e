"""A robot with every kind of sensor: it stands in a corner with a weight on a string of its own."""

from __future__ import annotations

from geometry_msgs.msg import WrenchStamped
from pxr import Usd
from sensor_msgs.msg import FluidPressure, Imu, LaserScan, MagneticField, NavSatFix, PointCloud2, Range
from std_msgs.msg import Bool

from usd_ros_bridge import load_plan
from usd_ros_bridge.model.plan import BridgePlan

HEADER = """#usda 1.0
(
    defaultPrim = "World"
    kilogramsPerUnit = 1
    metersPerUnit = 1
    timeCodesPerSecond = 1
    upAxis = "Z"
)
"""

STAGE = (
    HEADER
    + """
def Xform "World"
{{
    custom double usd_ros_bridge:georeference:latitude = 48.1
    custom double usd_ros_bridge:georeference:longitude = 11.5
    custom double usd_ros_bridge:georeference:altitude = 520

    def Plane "ground" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {{}}

    def Cube "wall" (prepend apiSchemas = ["PhysicsCollisionAPI"])
    {{
        double size = 2
        double3 xformOp:translate = (3, 0, 0)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }}

    def Xform "robot" (prepend apiSchemas = ["RosContextAPI"])
    {{
        string ros:context:namespace = "robot"

        def Xform "base" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"])
        {{
            float physics:mass = 10
            double3 xformOp:translate = (0, 0, 0.25)
            uniform token[] xformOpOrder = ["xformOp:translate"]

            def Cube "box" (prepend apiSchemas = ["PhysicsCollisionAPI"])
            {{
                double size = 0.5
            }}
            {sensors}
        }}

        def Xform "weight" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"])
        {{
            float physics:mass = 2
            double3 xformOp:translate = (0, 0, 1.25)
            uniform token[] xformOpOrder = ["xformOp:translate"]

            def PhysicsFixedJoint "string"
            {{
                rel physics:body0 = </World/robot/base>
                rel physics:body1 = </World/robot/weight>
                point3f physics:localPos0 = (0, 0, 1)
                {wrench}
            }}
        }}
    }}
}}
"""
)

SENSOR = """
            def Xform "{name}" (prepend apiSchemas = ["RosTopicAPI", "RosFrameAPI"])
            {{
                string ros:topic:name = "{name}"
                double ros:topic:publish_rate = {rate}
                token ros:topic:role = "publisher"
                string ros:topic:type = "{type}"
                {more}
            }}
"""

KINDS = {
    "scan": (LaserScan, 20, "custom int usd_ros_bridge:lidar:samples = 8"),
    "points": (PointCloud2, 20, "custom int usd_ros_bridge:lidar:rings = 3"),
    "range": (Range, 20, "custom double usd_ros_bridge:range:field_of_view = 10"),
    "imu": (Imu, 100, "custom double usd_ros_bridge:imu:angular_velocity_stddev = 1"),
    "wrench": (WrenchStamped, 50, ""),
    "bumper": (Bool, 20, "custom double usd_ros_bridge:contact:threshold = 1"),
    "fix": (NavSatFix, 5, ""),
    "field": (MagneticField, 20, ""),
    "air": (FluidPressure, 20, ""),
}


def sensor(name: str) -> str:
    """The sensor's prim."""
    message, rate, more = KINDS[name]
    package = message.__module__.partition(".")[0]
    return SENSOR.format(name=name, rate=rate, type=f"{package}/msg/{message.__name__}", more=more)


def sensor_plan() -> BridgePlan:
    """The plan of the stage with all sensors."""
    stage = Usd.Stage.CreateInMemory()
    on_base = "".join(sensor(name) for name in KINDS if name != "wrench")
    assert stage.GetRootLayer().ImportFromString(STAGE.format(sensors=on_base, wrench=sensor("wrench")))
    made = load_plan(stage, physics=True)
    assert not [each for each in made.diagnostics if each.severity != "info"], made.diagnostics
    return made
