"""A robot on two wheels, as a stage, and what it did."""

from __future__ import annotations

import numpy as np
from open_backend import STEP_NS, Opened

from builders.stage_text import at, body, plan_text, prim, world
from usd_ros_bridge.model.state import State


def rover(
    *,
    damping: float,
    floor: str = "Plane",
    width: float = 0.04,
    mass: float = 10.0,
    wheel: tuple[str, ...] = (),
    schemas: str = "",
    content: str = "",
) -> str:
    """Returns a robot of 12 kg on two wheels of 0.1 m radius, 0.3 m apart, and two casters without friction.

    Args:
        damping: Of the wheels' velocity drives, N m s/deg.
        floor: `Plane`, or `Cube` with its top at the origin.
        width: Of the wheels, m.
        mass: Of the base, kg.
        wheel: More lines of the wheels' prims.
        schemas: More API schemas of theirs.
        content: More prims.
    """
    ground = {
        "Plane": prim("Plane", "floor", "PhysicsCollisionAPI", 'uniform token axis = "Z"'),
        "Cube": prim("Cube", "floor", "PhysicsCollisionAPI", "double size = 20", at(0, 0, -10)),
    }
    ice = "rel material:binding:physics = </World/ice>"
    casters = [
        prim("Sphere", name, _ICY, "double radius = 0.05", ice, at(x, 0, -0.05))
        for name, x in (("front", 0.2), ("rear", -0.2))
    ]
    hull = prim("Cube", "hull", "PhysicsCollisionAPI", "double size = 0.12")
    base = body("base", f"float physics:mass = {mass}", at(0, 0, 0.1), hull, *casters)
    wheels = []
    for name, y in (("left", 0.15), ("right", -0.15)):
        size = ('uniform token axis = "Y"', "double radius = 0.1", f"double height = {width}")
        wheels += [
            body(
                name,
                *size,
                "float physics:mass = 1",
                *wheel,
                at(0, y, 0.1),
                schemas=f"PhysicsMassAPI PhysicsCollisionAPI {schemas}",
                kind="Cylinder",
            ),
            prim(
                "PhysicsRevoluteJoint",
                f"{name}_joint",
                "PhysicsDriveAPI:angular",
                'uniform token physics:axis = "Y"',
                "rel physics:body0 = </World/bot/base>",
                f"rel physics:body1 = </World/bot/{name}>",
                f"point3f physics:localPos0 = (0, {y}, 0)",
                f"float drive:angular:physics:damping = {damping}",
            ),
        ]
    return world(
        prim("PhysicsScene", "scene"),
        ground[floor],
        prim("Material", "ice", "PhysicsMaterialAPI"),
        content,
        prim("Xform", "bot", "RosContextAPI PhysicsArticulationRootAPI", base, *wheels),
    )


_ICY = "PhysicsCollisionAPI MaterialBindingAPI"


class Driven:
    """A rover that has settled, and what its base did since then."""

    def __init__(self, stage: str, **options: str) -> None:
        self.opened = Opened(plan_text(stage), **options)
        self.base = self.opened.body("/World/bot/base")
        state = self.opened.step(250)
        self.start = state.body_pose[self.base].copy()
        self.poses: list[np.ndarray] = []
        self.wheels: list[np.ndarray] = []

    def drive(self, left: float, right: float, seconds: float) -> State:
        """Commands the wheels, rad/s."""
        for _ in range(round(seconds / (STEP_NS * 1e-9))):
            state = self.opened.step(joint_velocity={"left_joint": left, "right_joint": right})
            self.poses.append(state.body_pose[self.base].copy())
            self.wheels.append(
                state.joint_position[[self.opened.row(f"{side}_joint") for side in ("left", "right")]]
            )
        return state

    @property
    def rise(self) -> float:
        """m."""
        return float(max(pose[2] for pose in self.poses) - self.start[2])

    @property
    def tilt(self) -> float:
        """Largest angle of the base from the vertical, degrees."""
        up = [1.0 - 2.0 * (pose[3] ** 2 + pose[4] ** 2) for pose in self.poses]
        return float(np.degrees(np.arccos(np.minimum(up, 1.0).min())))

    @property
    def turned(self) -> float:
        """rad."""
        yaw = np.unwrap([2.0 * np.arctan2(pose[5], pose[6]) for pose in self.poses])
        return float(yaw[-1] - yaw[0])
