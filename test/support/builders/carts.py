"""Stages of simple robots with drives and lidars, for bridges that share one world: boxes on rails, and rovers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

STEP_NS = 2_000_000
"""Time step of the stages, nanoseconds."""
HALF = (0.2, 0.15, 0.05)
"""Half extents of a slider's box, m."""
ROVER = Path(__file__).resolve().parents[3] / "examples" / "rover" / "rover.usda"

_HEAD = """#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 1
    kilogramsPerUnit = 1
    timeCodesPerSecond = 24
    upAxis = "Z"
)
def Xform "World"
{
    def PhysicsScene "physics" ( prepend apiSchemas = ["MjcSceneAPI"] )
    {
        double mjc:option:timestep = 0.002
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
        def Xform "box" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"] )
        {{
            double3 xformOp:translate = ({x}, {y}, 0.3)
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
            rel physics:body1 = </World/{name}/box>
            point3f physics:localPos0 = ({x}, {y}, 0.3)
            uniform token physics:axis = "X"
            float physics:lowerLimit = -100
            float physics:upperLimit = 100
            float drive:linear:physics:damping = 200
            float drive:linear:physics:maxForce = 60
        }}
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
"""

_ROVER = """
    def "{name}" ( prepend references = @{rover}@ )
    {{
        string ros:context:namespace = "{name}"
        double3 xformOp:translate = ({x}, {y}, 0)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }}
"""


def write_sliders(folder: Path, places: Sequence[tuple[float, float]]) -> Path:
    """Write a stage of boxes on rails along X, `robot_1` and so on, each with a velocity drive; return its path.

    Args:
        folder: Folder of the file.
        places: X and Y of each robot, m.
    """
    return _write(folder / "sliders.usda", _SLIDER, places)


def write_rovers(folder: Path, places: Sequence[tuple[float, float]]) -> Path:
    """Write a stage of rovers of the example on a plane, `robot_1` and so on; arguments as of `write_sliders`."""
    return _write(folder / "rovers.usda", _ROVER, places)


def _write(path: Path, robot: str, places: Sequence[tuple[float, float]]) -> Path:
    robots = [
        robot.format(name=f"robot_{number}", x=x, y=y, rover=ROVER)
        for number, (x, y) in enumerate(places, start=1)
    ]
    path.write_text(_HEAD + "".join(robots) + "}\n")
    return path
