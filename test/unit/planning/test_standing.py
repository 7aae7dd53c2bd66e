"""What a robot stands on: legs and wheels that reach its lowest point, and no lone arm."""

from __future__ import annotations

from usd_ros_bridge.model.physics import Body, Box, Collider, Dof, Joint, PhysicsScene
from usd_ros_bridge.planning.standing import standing_limbs
from usd_ros_bridge.spatial.pose import Pose

BASE_HEIGHT = 1.0


def robot(*limbs: float, base: float = 0.1, moves: bool = True) -> PhysicsScene:
    """A base, a box of half height `base`, with limbs that each end at a height, m, by a joint that turns or not."""
    bodies = [Body(path="/robot/base", world_from_body=place(BASE_HEIGHT), robot=0)]
    colliders = [box(0, base)]
    joints = []
    for number, end in enumerate(limbs):
        half = 0.1
        bodies.append(
            Body(
                path=f"/robot/limb_{number}",
                world_from_body=place(end + half),
                parent=0,
                joints=(number,),
                robot=0,
            )
        )
        colliders.append(box(number + 1, half))
        joints.append(
            Joint(
                path=f"/robot/joint_{number}",
                type="revolute" if moves else "fixed",
                body0=0,
                body1=number + 1,
                dofs=(Dof(axis="rotY"),) if moves else (),
            )
        )
    return PhysicsScene(bodies=tuple(bodies), colliders=tuple(colliders), joints=tuple(joints))


def place(height: float) -> Pose:
    return Pose((0.0, 0.0, height), (0.0, 0.0, 0.0, 1.0))


def box(body: int, half: float) -> Collider:
    return Collider(path=f"/box_{body}", body=body, body_from_shape=place(0.0), shape=Box((0.1, 0.1, half)))


SCENES = {
    "four legs": (robot(0.0, 0.0, 0.0, 0.0), 4),
    "nearly level": (robot(0.0, 0.04), 2),
    "one leg": (robot(0.0, 0.3), 0),
    "an arm that hangs low": (robot(0.0), 0),
    "arms above the foot": (robot(0.5, 0.5, base=1.0), 0),
    "wheels level with a fixed caster": (robot(0.0, 0.0, base=1.0), 2),
    "fixed legs": (robot(0.0, 0.0, moves=False), 0),
    "a lone body": (robot(), 0),
    "nothing": (PhysicsScene(), 0),
}


def test_limbs_that_reach_the_lowest_point_carry_the_robot() -> None:
    assert {name: standing_limbs(scene, 0) for name, (scene, _) in SCENES.items()} == {
        name: [f"/robot/joint_{number}" for number in range(count)] for name, (_, count) in SCENES.items()
    }
    assert not any(standing_limbs(scene, 1) for scene, _ in SCENES.values())
