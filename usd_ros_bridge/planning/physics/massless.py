"""Bodies without mass: which weigh nothing where the asset or the caller wants that, and what is said of the others.

UsdPhysics gives a body without mass and colliders 1 kg. Converters leave out masses of zero, so that a converted robot
has such bodies where its URDF or MJCF had links that weigh nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, get_args

from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.errors import choices
from usd_ros_bridge.model.options import MasslessBodies, PlanOptions
from usd_ros_bridge.model.physics import WORLD_BODY, Inertial, Joint
from usd_ros_bridge.model.physics_records import MASSLESS_BODIES, PhysicsRecords
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.planning.findings import Findings
from usd_ros_bridge.planning.paths import Nearest
from usd_ros_bridge.planning.physics.bodies import BodyTable
from usd_ros_bridge.planning.physics.forest import Forest
from usd_ros_bridge.planning.stage_index import StageIndex

AUTHORED: Final = tuple(value for value in get_args(MasslessBodies) if value != "auto")
NOTABLE_SHARE: Final = 0.01
"""Of a robot's mass: up to it, bodies whose mass is assumed are no warning."""
_SHOWN: Final = 3
_REMEDY: Final = (
    "author physics:mass, or give the body a collider; if the asset was converted from URDF or MJCF, set the option "
    f"massless_bodies to weightless, or author {MASSLESS_BODIES} on the robot's prim"
)


class MasslessRule:
    """What holds for bodies without mass: the option, else what is authored nearest above, else on the whole stage."""

    def __init__(
        self, physics: PhysicsRecords, index: StageIndex, options: PlanOptions, findings: Findings
    ) -> None:
        self._option = options.massless_bodies
        self._authored: dict[str, str] = {}
        if self._option != "auto":
            return
        for path, value in physics.massless_bodies.items():
            if value in AUTHORED:
                self._authored[path] = value
                continue
            findings.error(
                "1.3.mass",
                path,
                f"{quoted(value)} is no rule for bodies without mass; it counts as not authored",
                f"author one of {choices(AUTHORED)}",
                attribute=MASSLESS_BODIES,
            )
        self._nearest = Nearest(self._authored)
        whole = (index.records.default_prim or "", *(scene.path for scene in physics.scenes))
        self._stage = next((self._authored[path] for path in whole if path in self._authored), AUTHORED[0])

    def is_weightless(self, path: str) -> bool:
        """Returns whether the body weighs nothing if nothing that is authored gives it a mass."""
        if self._option != "auto":
            return self._option == "weightless"
        if not self._authored:
            return False
        return self._authored.get(self._nearest(path), self._stage) == "weightless"


def loop_ends(forest: Forest, joints: Sequence[Joint], table: BodyTable) -> frozenset[str]:
    """Returns the bodies, or what carries them rigidly, that joints hold which close loops.

    Such a joint is a force between two bodies: next to no mass at one end leaves it nothing to push against.
    """
    moving = {joint.path for joint in joints if joint.dofs or joint.type == "distance"}
    found = set[str]()
    for joint in joints:
        if joint.closes_loop:
            ends = [table.paths[body] for body in (joint.body0, joint.body1) if body != WORLD_BODY]
            found.update(_rigid_root(end, forest, moving) for end in ends)
    return frozenset(found)


def _rigid_root(path: str, forest: Forest, moving: set[str]) -> str:
    hang = forest.hangs.get(path)
    while hang is not None and hang.parent and moving.isdisjoint(hang.joints):
        path = hang.parent
        hang = forest.hangs.get(path)
    return path


def report_assumed(
    assumed: Mapping[str, str],
    kilograms: float,
    plan: BridgePlan,
    table: BodyTable,
    inertials: Sequence[Inertial],
    findings: Findings,
) -> None:
    """Reports the bodies whose mass is assumed: those of a robot together, others one by one.

    Args:
        assumed: By path of a body, why nothing gives it a mass.
        kilograms: What each of them gets.
        plan: The robots.
        table: The bodies' order.
        inertials: Mass properties in that order.
        findings: Takes the reports.
    """
    if not assumed:
        return
    left = dict(assumed)
    for robot in plan.robots:
        bodies = [plan.layout.bodies[row] for row in robot.bodies]
        found = [(path, left.pop(path)) for path in bodies if path in left]
        if not found:
            continue
        rows = [table.indices[path] for path in bodies if path in table.indices]
        total = sum(inertials[row].mass for row in rows)
        share = len(found) * kilograms / total
        paths = ", ".join(path for path, _ in found[:_SHOWN]) + (", ..." if len(found) > _SHOWN else "")
        report = findings.warning if share > NOTABLE_SHARE else findings.info
        report(
            "1.3.mass",
            robot.path,
            f"{len(found)} {'body has' if len(found) == 1 else 'bodies have'} {found[0][1]} ({paths}); "
            f"{kilograms:g} kg {'is' if len(found) == 1 else 'each are'} assumed, "
            f"{100.0 * share:.2g} % of the robot's mass",
            _REMEDY,
            attribute="physics:mass",
        )
    for path, reason in left.items():
        findings.warning(
            "1.3.mass",
            path,
            f"the body has {reason}; {kilograms:g} kg are assumed",
            _REMEDY,
            attribute="physics:mass",
        )
