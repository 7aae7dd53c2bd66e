"""An asset whose texts try to be markup: names, types, values and its own file name."""

from __future__ import annotations

from pathlib import Path

MARKUP = "</script><script>window.broken=1</script><img src=x onerror=window.broken=2>"
"""Ends a script, and runs others where it is not escaped."""

_ROBOT = """#usda 1.0
(
    defaultPrim = "robot"
    metersPerUnit = 1
    upAxis = "Z"
)
def Xform "robot" (
    prepend apiSchemas = ["RosContextAPI", "PhysicsRigidBodyAPI"]
    doc = '''{markup}'''
)
{{
    string ros:context:namespace = "robot"
    def Cube "box" (prepend apiSchemas = ["PhysicsCollisionAPI"])
    {{
        double size = 0.2
        color3f[] primvars:displayColor = [(0.1, 0.8, 0.2)]
    }}
    def Xform "topic" (prepend apiSchemas = ["RosTopicAPI"])
    {{
        string ros:topic:name = '''{markup}'''
        token ros:topic:role = "publisher"
        string ros:topic:type = '''{markup}'''
        double ros:topic:publish_rate = -1
    }}
    def Xform "frame" (prepend apiSchemas = ["RosFrameAPI"])
    {{
        string ros:frame:id = '''{markup}'''
    }}
}}
"""


def write_nasty_asset(directory: Path) -> Path:
    """Write the asset, in a file whose name is markup, too. Return the file."""
    path = directory / "<img src=x onerror=window.broken=3>&amp;.usda"
    path.write_text(_ROBOT.format(markup=MARKUP), encoding="utf-8")
    return path
