"""Carts: a stage of simple robots with wheels, drives and lidars, for bridges that share one world."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

STEP_NS = 2_000_000
"""Time step of the stage, nanoseconds."""
HALF = (0.2, 0.15, 0.05)
"""Half extents of a cart's chassis, m."""
HEIGHT = 0.1
"""Height of its centre, m."""

_HEAD = """#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 1
    kilogramsPerUnit = 1
    upAxis = "Z"
)
def Xform "World"
{
    def PhysicsScene "physics" ( prepend apiSchemas = ["MjcSceneAPI"] )
    {
        double mjc:option:timestep = 0.002
        double mjc:option:tolerance = 0
    }
    def Plane "ground" ( prepend apiSchemas = ["PhysicsCollisionAPI"] )
    {
        uniform token axis = "Z"
    }
"""

_SLIDER = """
    def Xform "{name}" ( prepend apiSchemas = ["RosContextAPI"] )
    {{
        string ros:context:namespace = "{name}"
        def Xform "chassis" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"] )
        {{
            double3 xformOp:translate = ({x}, {y}, 0.1)
            uniform token[] xformOpOrder = ["xformOp:translate"]
            float physics:mass = 2
            def Cube "shape" ( prepend apiSchemas = ["PhysicsCollisionAPI"] )
            {{
                double size = 1
                float3 xformOp:scale = (0.4, 0.3, 0.1)
                uniform token[] xformOpOrder = ["xformOp:scale"]
            }}
            def Xform "lidar" ( prepend apiSchemas = ["RosTopicAPI", "RosFrameAPI"] )
            {{
                token ros:topic:role = "publisher"
                string ros:topic:name = "scan"
                string ros:topic:type = "sensor_msgs/msg/LaserScan"
                double ros:topic:publish_rate = 50
            }}
        }}
        def PhysicsPrismaticJoint "slide" ( prepend apiSchemas = ["PhysicsDriveAPI:linear"] )
        {{
            rel physics:body1 = </World/{name}/chassis>
            point3f physics:localPos0 = ({x}, {y}, 0.1)
            uniform token physics:axis = "X"
            float physics:lowerLimit = -100
            float physics:upperLimit = 100
            float drive:linear:physics:damping = 200
            float drive:linear:physics:maxForce = 60
        }}
        def Scope "topics"
        {{
            def Scope "states" ( prepend apiSchemas = ["RosTopicAPI"] )
            {{
                token ros:topic:role = "publisher"
                string ros:topic:name = "joint_states"
                string ros:topic:type = "sensor_msgs/msg/JointState"
                double ros:topic:publish_rate = 50
            }}
            def Scope "commands" ( prepend apiSchemas = ["RosTopicAPI"] )
            {{
                token ros:topic:role = "subscription"
                string ros:topic:name = "joint_commands"
                string ros:topic:type = "sensor_msgs/msg/JointState"
            }}
        }}
    }}
"""


def write_sliders(folder: Path, places: Sequence[tuple[float, float]]) -> Path:
    """Write a stage of boxes on rails along X, `robot_1` and so on, each with a velocity drive; return its path.

    Args:
        folder: Folder of the file.
        places: X and Y of each robot, m.
    """
    robots = [
        _SLIDER.format(name=f"robot_{number}", x=x, y=y) for number, (x, y) in enumerate(places, start=1)
    ]
    path = folder / "sliders.usda"
    path.write_text(_HEAD + "".join(robots) + "}\n")
    return path
