"""Mass properties of bodies: the rules of UsdPhysics.RigidBodyAPI.ComputeMassProperties.

Mass: the body's own, else the sum over its colliders of their own mass, else volume times density; density: the
collider's, else the body's, else the bound material's, else 1000 kg/m^3. Centre and inertia: authored, else what the
colliders make together, scaled to the mass. Where ComputeMassProperties gives what cannot be simulated (no mass, a
volume of zero, axes without moments, moments below 1e-5 taken for none), docs/reference/physics.md says what is used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, get_args

import numpy as np

from usd_ros_bridge.errors import choices, quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.physics import WORLD_BODY, Inertial, Joint, Shape, nearest_moments
from usd_ros_bridge.model.physics_records import MASSLESS_BODIES, MassRecord, PhysicsRecords
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import MasslessBodies, PlanOptions
from usd_ros_bridge.planning.kinematics.kinematic_model import KinematicModel
from usd_ros_bridge.planning.names import Nearest
from usd_ros_bridge.planning.physics.bodies import BodyTable, as_vector
from usd_ros_bridge.planning.physics.volumes import MassModel, Solid, distributed
from usd_ros_bridge.planning.stage_index import MAX_MAGNITUDE, StageIndex, Units
from usd_ros_bridge.spatial.scalar import Quaternion, Vector3
from usd_ros_bridge.spatial.transforms import FloatArray, from_rotation_matrix, to_matrix

WATER: Final = 1000.0
"""kg/m^3, where no density is authored."""
POINT_RADIUS: Final = 0.1
"""m, of the ball that a body with mass and without colliders is taken for."""
_ROUNDING: Final = 1e-3
"""Share of the largest moment by which moments are changed without a word: what a few decimals leave."""
_NOISE: Final = 1e-15
"""kg m^2: what rounding leaves of inertia that is zero."""
_LEAST: Final = float(np.finfo(np.float64).tiny)
"""kg m^2: the smallest moment of inertia there is."""
_IDENTITY: Final = (0.0, 0.0, 0.0, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class ColliderMass:
    """Contribution of a collider to its body's mass.

    Attributes:
        path: Prim path.
        shape: Its shape.
        body_from_shape: (4, 4) where that is in the body.
        body_from_prim: (4, 4) where the prim's own axes are: a mass of its own is authored in them.
        scale: (3,) world scale of the prim.
        record: PhysicsMassAPI on the collider itself or its compound, None where it is not applied.
        compound: The compound collider; its parts share `record` and mass. "" for none.
        density: Of the bound material, in stage units; 0 for none.
        model: How the mass is distributed.
        thickness: m, of the wall of a shell; 0 for a surface.
    """

    path: str
    shape: Shape
    body_from_shape: FloatArray
    body_from_prim: FloatArray
    scale: FloatArray
    record: MassRecord | None = None
    compound: str = ""
    density: float = 0.0
    model: MassModel = ""
    thickness: float = 0.0


def share_masses(masses: Mapping[str, list[ColliderMass]], findings: DiagnosticCollector) -> None:
    """Share the mass of each compound among its parts, by volume: whatever bodies they are of.

    Args:
        masses: The colliders of each body; changed.
        findings: Takes centres of mass and moments of compounds, which are those of the parts together.
    """
    parts: dict[str, list[tuple[list[ColliderMass], int, float]]] = {}
    for colliders in masses.values():
        for number, each in enumerate(colliders):
            if each.compound and each.record is not None:
                volume = distributed(each.shape, each.model, each.thickness).volume
                parts.setdefault(each.compound, []).append((colliders, number, volume))
    for compound, of_compound in parts.items():
        total = sum(volume for _, _, volume in of_compound)
        record = of_compound[0][0][of_compound[0][1]].record
        assert record is not None
        if record.center_of_mass is not None or record.diagonal_inertia is not None:
            findings.warning(
                "1.3.mass",
                compound,
                "the centre of mass and the inertia of a prim above gprims are not used: those of the gprims are",
                "author them on the rigid body",
            )
        for colliders, number, volume in of_compound:
            share = volume / total if total > 0.0 else 1.0 / len(of_compound)
            mass = record.mass
            # What cannot be used is reported as it is authored.
            if mass is not None and 0.0 < mass <= MAX_MAGNITUDE:
                mass *= share
            shared = MassRecord(path=record.path, mass=mass, density=record.density)
            colliders[number] = replace(colliders[number], record=shared)


def with_tensor(record: MassRecord | None, path: str, tensor: Any) -> MassRecord | None:
    """Return PhysicsMassAPI with the inertia of NewtonMassAPI in place of its own, unless that cannot be used.

    Args:
        record: As authored, None where it is not applied.
        path: The body.
        tensor: `newton:inertia`: Ixx, Iyy, Izz, Ixy, Ixz, Iyz about the centre of mass, in the body's axes.
    """
    if not isinstance(tensor, (tuple, list)) or len(tensor) != 6 or not any(tensor):
        return record
    if not all(isinstance(value, (int, float)) and abs(value) <= MAX_MAGNITUDE for value in tensor):
        return record
    xx, yy, zz, xy, xz, yz = tensor
    moments, axes = np.linalg.eigh(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]], dtype=np.float64))
    if np.linalg.det(axes) < 0.0:
        axes[:, 2] *= -1.0
    x, y, z, w = from_rotation_matrix(axes).tolist()
    one, two, three = moments.tolist()
    return replace(
        record or MassRecord(path=path), diagonal_inertia=(one, two, three), principal_axes=(x, y, z, w)
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Lump:
    """A mass, its centre and the inertia about it, in the body's axes: kg, m, kg m^2."""

    mass: float
    center: FloatArray
    inertia: FloatArray

    def moved_to(self, center: FloatArray) -> _Lump:
        """Return the inertia about another centre, as UsdPhysics moves it: by the parallel axis theorem."""
        return _Lump(self.mass, center, self.inertia + _parallel(self.mass, center - self.center))

    def scaled_to(self, mass: float) -> _Lump:
        return _Lump(mass, self.center, self.inertia * (mass / self.mass))


def _parallel(mass: float, offset: FloatArray) -> FloatArray:
    result: FloatArray = mass * (float(offset @ offset) * np.eye(3) - np.outer(offset, offset))
    return result


def _sum(lumps: Sequence[_Lump]) -> _Lump | None:
    mass = sum(lump.mass for lump in lumps)
    if not mass > 0.0:
        return None
    if len(lumps) == 1:
        return lumps[0]
    center = sum((lump.mass * lump.center for lump in lumps), np.zeros(3)) / mass
    inertia = sum(
        (lump.inertia + _parallel(lump.mass, lump.center - center) for lump in lumps), np.zeros((3, 3))
    )
    return _Lump(mass, center, inertia)


class MassPlanner:
    """Planner of mass properties. Faults of authored ones are reported once per prim.

    Attributes:
        assumed: By path of each body that a mass is assumed for: why nothing gives it one.
    """

    def __init__(self, units: Units, findings: DiagnosticCollector) -> None:
        self._units = units
        self._findings = findings
        self._solids: dict[tuple[int, MassModel, float], Solid] = {}
        self.assumed: dict[str, str] = {}

    def inertial(
        self,
        path: str,
        record: MassRecord | None,
        colliders: Sequence[ColliderMass],
        scale: FloatArray,
        *,
        kinematic: bool,
        weightless: bool = False,
        attached: bool = False,
    ) -> Inertial:
        """Return the mass properties of a body.

        Args:
            path: The body.
            record: PhysicsMassAPI on the body, None where it is not applied.
            colliders: Its enabled colliders.
            scale: (3,) world scale of the body.
            kinematic: Whether it needs none.
            weightless: Whether a mass that is authored as 0, or nowhere, is none.
            attached: Whether joints carry it: other bodies have the mass that their colliders make.
        """
        if weightless and not kinematic:
            if self._weighs_nothing(record, colliders, attached=attached):
                return Inertial(mass=0.0)
            # Colliders that are said to weigh nothing do not, beside others.
            colliders = [
                each for each in colliders if not _is_zero(each.record) or _has_mass(each)
            ] or colliders
        mass = self._mass(record)
        moments = self._moments(record)
        if weightless and moments is None and mass is not None and record is not None:
            # A point mass, as URDF and MJCF have it.
            moments = (0.0, 0.0, 0.0) if record.diagonal_inertia == (0.0, 0.0, 0.0) else None
        center = self._center(record, scale)
        if weightless and attached and moments is not None and record is not None and record.mass == 0.0:
            # A URDF link may have inertia and no mass.
            at = np.zeros(3) if center is None else center
            return Inertial(mass=0.0, center=as_vector(at), diagonal=moments, principal=self._axes(record))
        together = None
        if mass is None or moments is None or center is None:
            density = self._density(record)
            together = _sum([self._lump(collider, density) for collider in colliders])
        if kinematic and mass is None and together is None:
            return Inertial(mass=0.0)
        if mass is None:
            mass = self._kilograms(path, record, together, bool(colliders))
        if together is not None:
            together = together.scaled_to(mass)
            together = together if center is None else together.moved_to(center)
        if center is None:
            center = np.zeros(3) if together is None else together.center
        if moments is not None:
            principal = self._axes(record)
        else:
            moments, principal = diagonalized(_ball(mass) if together is None else together.inertia)
        if not any(moments):
            # Below the smallest numbers there are: engines take no body without inertia.
            moments = (_LEAST,) * 3
        return Inertial(mass=mass, center=as_vector(center), diagonal=moments, principal=principal)

    def _weighs_nothing(
        self, record: MassRecord | None, colliders: Sequence[ColliderMass], *, attached: bool
    ) -> bool:
        """Return whether the body has no mass on purpose: nothing is authored, or zeros.

        Colliders of converted URDF robots have no mass of their own and those of MJCF models have one: they count,
        unless the body's own mass is authored as 0.
        """
        if record is not None and (
            any(record.diagonal_inertia or ())
            or (record.mass or 0.0) != 0.0
            or (record.density or 0.0) != 0.0
        ):
            return False
        if not colliders:
            return True
        said_zero = record is not None and record.mass == 0.0
        return attached and (said_zero or not any(_has_mass(each) for each in colliders))

    def _kilograms(
        self, path: str, record: MassRecord | None, together: _Lump | None, has_colliders: bool
    ) -> float:
        """Return the mass of a body that authors none."""
        said_zero = record is not None and record.mass == 0.0
        if together is not None:
            if said_zero:
                self._findings.info(
                    "1.3.mass",
                    path,
                    f"a mass of 0 means that none is authored; {together.mass:.6g} kg follow from the colliders",
                    "author the mass in kilograms, or leave it out; massless_bodies: weightless takes 0 at its word",
                    attribute="physics:mass",
                )
            return together.mass
        what = "colliders without a volume" if has_colliders else "no collider"
        self.assumed[path] = f"{'a mass of 0' if said_zero else 'no mass'} and {what}"
        return self._units.kilograms

    # --- As authored ----------------------------------------------------------------------------------------------

    def _positive(self, record: MassRecord, value: float | None, name: str) -> float | None:
        """Return an authored number that is positive; 0 means "not authored" (UsdPhysics)."""
        if value is None or value == 0.0:
            return None
        if 0.0 < value <= MAX_MAGNITUDE:
            return value
        self._findings.error(
            "1.3.mass",
            record.path,
            f"{quoted(value)} cannot be used; it counts as not authored",
            "author a positive number",
            attribute=name,
        )
        return None

    def _mass(self, record: MassRecord | None) -> float | None:
        mass = None if record is None else self._positive(record, record.mass, "physics:mass")
        return None if mass is None else mass * self._units.kilograms

    def _density(self, record: MassRecord | None) -> float | None:
        density = None if record is None else self._positive(record, record.density, "physics:density")
        return None if density is None else self.si_density(density)

    def si_density(self, density: float) -> float:
        """Return kg/m^3 of a density in stage units."""
        return density * self._units.kilograms / self._units.meters**3

    def _center(self, record: MassRecord | None, scale: FloatArray) -> FloatArray | None:
        center = None if record is None else record.center_of_mass
        if record is None or center is None or all(value == -math.inf for value in center):
            return None
        if all(abs(value) <= MAX_MAGNITUDE for value in center):
            result: FloatArray = np.array(center) * scale * self._units.meters
            return result
        self._findings.error(
            "1.3.mass",
            record.path,
            f"the centre of mass {quoted(center)} cannot be used; it counts as not authored",
            "author finite coordinates",
            attribute="physics:centerOfMass",
        )
        return None

    def _moments(self, record: MassRecord | None) -> Vector3 | None:
        moments = None if record is None else record.diagonal_inertia
        if record is None or moments is None or not any(moments):
            return None
        values = [moment * self._units.kilograms * self._units.meters**2 for moment in moments]
        values = [0.0 if -_NOISE <= value < 0.0 else value for value in values]
        if not any(values):
            return None
        largest = max(values)
        if not all(abs(value) <= MAX_MAGNITUDE for value in (*values, *moments)) or largest <= 0.0:
            self._findings.error(
                "1.3.inertia",
                record.path,
                f"the principal moments of inertia {quoted(moments)} cannot be used: they are negative or no finite "
                "numbers; they count as not authored",
                "author positive moments, each at most the sum of the other two",
                attribute="physics:diagonalInertia",
            )
            return None
        nearest = nearest_moments(values)
        notable = max(_ROUNDING * largest, _NOISE)
        if any(abs(one - other) > notable for one, other in zip(nearest, values, strict=True)):
            used = f"the nearest that a body can have are used, {', '.join(f'{value:.6g}' for value in nearest)} kg m^2"
            remedy, name = (
                "author positive moments, each at most the sum of the other two",
                "physics:diagonalInertia",
            )
            about = f"the principal moments of inertia {quoted(moments)}"
            if min(values) < -_ROUNDING * largest:
                wrong = f"{about} are not all positive; {used}"
                self._findings.error("1.3.inertia", record.path, wrong, remedy, attribute=name)
            else:
                wrong = f"{about} violate the triangle inequality: no body has one above the sum of the others; {used}"
                self._findings.warning("1.3.inertia", record.path, wrong, remedy, attribute=name)
        return nearest

    def _axes(self, record: MassRecord | None) -> Quaternion:
        axes = None if record is None else record.principal_axes
        if record is None or axes is None or not any(axes):
            return _IDENTITY
        length = math.sqrt(sum(value * value for value in axes))
        if 0.0 < length <= MAX_MAGNITUDE:
            x, y, z, w = (value / length for value in axes)
            return (x, y, z, w)
        self._findings.error(
            "1.3.inertia",
            record.path,
            f"the principal axes {quoted(axes)} are no rotation; the body's own are used",
            "author a unit quaternion",
            attribute="physics:principalAxes",
        )
        return _IDENTITY

    # --- Colliders ------------------------------------------------------------------------------------------------

    def _solid(self, collider: ColliderMass) -> Solid:
        # Shapes live as long as the planner's caller holds them: the mass of a mesh is computed once.
        key = (id(collider.shape), collider.model, collider.thickness)
        solid = self._solids.get(key)
        if solid is None:
            solid = distributed(collider.shape, collider.model, collider.thickness)
            self._solids[key] = solid
        return solid

    def _lump(self, collider: ColliderMass, body_density: float | None) -> _Lump:
        record = collider.record
        solid = self._solid(collider)
        density = self._density(record) or body_density
        if density is None:
            density = self.si_density(collider.density) if collider.density > 0.0 else WATER
        mass = self._mass(record)
        if mass is None:
            mass, inertia = solid.volume * density, solid.inertia * density
        else:
            inertia = solid.inertia * (mass / solid.volume) if solid.volume > 0.0 else _ball(mass)
        shape = collider.body_from_shape
        turn = shape[:3, :3]
        lump = _Lump(mass, turn @ solid.center + shape[:3, 3], turn @ inertia @ turn.T)
        if record is None:
            return lump
        prim = collider.body_from_prim
        center = self._center(record, collider.scale)
        if center is not None:
            lump = lump.moved_to(prim[:3, :3] @ center + prim[:3, 3])
        moments = self._moments(record)
        if moments is not None:
            turn = prim[:3, :3] @ _rotation(self._axes(record))
            lump = _Lump(mass, lump.center, turn @ np.diag(moments) @ turn.T)
        return lump


def diagonalized(tensor: FloatArray) -> tuple[Vector3, Quaternion]:
    """Return principal moments, and `body_from_principal` x, y, z, w, of an inertia tensor (3, 3)."""
    # numpy takes ten times as long for nine numbers.
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = tensor.tolist()
    off = max(map(abs, (xy, xz, yx, yz, zx, zy)))
    if off <= 1e-12 * max(off, abs(xx), abs(yy), abs(zz)):
        return nearest_moments((xx, yy, zz)), _IDENTITY
    moments, axes = np.linalg.eigh(0.5 * (tensor + tensor.T))
    if np.linalg.det(axes) < 0.0:
        axes[:, 2] *= -1.0
    x, y, z, w = from_rotation_matrix(axes).tolist()
    return nearest_moments(moments.tolist()), (x, y, z, w)


def _has_mass(collider: ColliderMass) -> bool:
    """Return whether anything says what a collider weighs."""
    record = collider.record
    authored = record is not None and (bool(record.mass) or bool(record.density))
    return authored or collider.density > 0.0


def _is_zero(record: MassRecord | None) -> bool:
    """Return whether a collider's own mass or density is authored as 0."""
    return record is not None and 0.0 in (record.mass, record.density)


def _ball(mass: float) -> FloatArray:
    result: FloatArray = np.eye(3) * 0.4 * mass * POINT_RADIUS**2
    return result


def _rotation(quaternion: Quaternion) -> FloatArray:
    matrix: FloatArray = to_matrix(np.array((0.0, 0.0, 0.0, *quaternion)))[:3, :3]
    return matrix


AUTHORED: Final = tuple(value for value in get_args(MasslessBodies) if value != "auto")
NOTABLE_SHARE: Final = 0.01
"""Of a robot's mass: up to it, bodies whose mass is assumed are no warning."""
_SHOWN: Final = 3
_REMEDY: Final = (
    "author physics:mass, or give the body a collider; if the asset was converted from URDF or MJCF, set the option "
    f"massless_bodies to weightless, or author {MASSLESS_BODIES} on the robot's prim"
)


class MasslessRule:
    """Rule for bodies without mass: the option, else what is authored nearest above, else on the whole stage."""

    def __init__(
        self, physics: PhysicsRecords, index: StageIndex, options: PlanOptions, findings: DiagnosticCollector
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
        """Return whether the body weighs nothing if nothing that is authored gives it a mass."""
        if self._option != "auto":
            return self._option == "weightless"
        if not self._authored:
            return False
        return self._authored.get(self._nearest(path), self._stage) == "weightless"


def loop_ends(kinematics: KinematicModel, joints: Sequence[Joint], table: BodyTable) -> frozenset[str]:
    """Return the bodies, or what carries them rigidly, that joints hold which close loops.

    Such a joint is a force between two bodies: next to no mass at one end leaves it nothing to push against.
    """
    moving = {joint.path for joint in joints if joint.dofs or joint.type == "distance"}
    found = set[str]()
    for joint in joints:
        if joint.closes_loop:
            ends = [table.paths[body] for body in (joint.body0, joint.body1) if body != WORLD_BODY]
            found.update(_rigid_root(end, kinematics, moving) for end in ends)
    return frozenset(found)


def _rigid_root(path: str, kinematics: KinematicModel, moving: set[str]) -> str:
    attachment = kinematics.attachments.get(path)
    while attachment is not None and attachment.parent and moving.isdisjoint(attachment.joints):
        path = attachment.parent
        attachment = kinematics.attachments.get(path)
    return path


def report_assumed(
    assumed: Mapping[str, str],
    kilograms: float,
    plan: BridgePlan,
    table: BodyTable,
    inertials: Sequence[Inertial],
    findings: DiagnosticCollector,
) -> None:
    """Report the bodies whose mass is assumed: those of a robot together, others one by one.

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
