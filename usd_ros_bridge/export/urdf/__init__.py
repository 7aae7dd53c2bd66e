"""A robot of a plan as URDF: what robot_state_publisher, RViz, MoveIt and Nav2 read a robot from."""

from usd_ros_bridge.export.urdf.document import Urdf, UrdfExporter, robot_urdf

__all__ = ["Urdf", "UrdfExporter", "robot_urdf"]
