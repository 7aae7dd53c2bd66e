"""How a robot touches the ground at rest, for what a robot file does not say: whether its base floats."""

from __future__ import annotations

from usd_ros_bridge.model.physics import PhysicsScene
from usd_ros_bridge.planning.joint_loads import joints_inboard, lowest_points

LEVEL = 0.05
"""Share of a robot's height by which the ends of limbs that it stands on may differ in height."""


def standing_limbs(scene: PhysicsScene, robot: int) -> list[str]:
    """Return the innermost joints of the limbs (legs, wheels) that a robot stands on, by path.

    Those are limbs whose lowest point is level with the robot's lowest point. One alone is none: nothing stands on it,
    and an arm may hang as low as its foot.

    Args:
        scene: At rest.
        robot: Index of the robot.
    """
    lowest = {
        body: float(point[2])
        for body, point in lowest_points(scene).items()
        if body >= 0 and scene.bodies[body].robot == robot
    }
    if not lowest:
        return []
    bottom = min(lowest.values())
    heights = [body.world_from_body.translation[2] for body in scene.bodies if body.robot == robot]
    level = bottom + LEVEL * (max(heights) - bottom)
    limbs: dict[str, None] = {}
    for body, height in lowest.items():
        moving = [joint for joint in joints_inboard(scene, scene.bodies[body]) if scene.joints[joint].dofs]
        if moving and height <= level:
            limbs[scene.joints[moving[-1]].path] = None
    return list(limbs) if len(limbs) > 1 else []
