"""SpecBuilder: a MuJoCo specification (MjSpec) of a physics scene under construction, and the names of its elements."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Final

import mujoco

from usd_ros_bridge.backends.mujoco.mujoco_options import MujocoOptions
from usd_ros_bridge.model.physics import WORLD_BODY, Body, Joint, PhysicsScene
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.spatial.transforms import FloatArray, wxyz

COLLIDER_GROUP: Final = 0
"""Geom group of visible colliders."""
VISUAL_GROUP: Final = 2
"""Geom group of visuals."""
HIDDEN_GROUP: Final = 3
"""Geom group of invisible colliders. Lidars hit groups 0 and 3, cameras see groups 0 and 2."""
AUXILIARY_GROUP: Final = 5
"""Group of sites, tendons and wrapping geoms: neither lidars nor cameras see it."""
MOST_RATIO: Final = 1e4
"""Greatest inertia that a stiff drive adds in the solver, over that of its joint: MuJoCo's own greatest impedance."""
DRIVE_KINDS: Final = ("position", "velocity", "motor")
"""Kinds of actuators of a drive."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BallJoint:
    """A ball joint of a specification.

    Attributes:
        name: Name of MuJoCo's joint.
        first: Flattened index of the joint's first degree of freedom.
        frame: (4,) `child_from_joint`, x, y, z, w.
        inverted: The child is body0 of the joint.
    """

    name: str
    first: int
    frame: FloatArray
    inverted: bool


class SpecBuilder:
    """A MuJoCo specification of a scene before it is compiled: sites, cameras and sensors may be added.

    Elements of the specification are named by prim path, parts of a prim with a suffix. Degrees of freedom have a
    flattened index: those of all joints of the scene in order.

    Attributes:
        spec: The specification (MjSpec).
        scene: The scene.
        report: Receives what cannot be mapped.
        options: Options of the backend.
        bodies: MuJoCo's bodies by body of the scene; kinematic bodies are mocap bodies.
        offsets: Flattened index of each joint's first degree of freedom.
        joint_names: Name of MuJoCo's joint by degree of freedom, "" for none.
        actuator_names: Names of the actuators of drives by kind and degree of freedom, "" for none.
        actuated: Flattened indices of the degrees of freedom that the asset's actuators act on.
        control_names: Name of MuJoCo's actuator by actuator of the scene, "" for none.
        balls: Ball joints.
        mimicked: Joints that mimic joints follow.
        filtered_bodies: Pairs of bodies that do not collide.
        free_names: Name of MuJoCo's free joint by body of the scene, "" for none.
        geom_names: Names of MuJoCo's geoms by collider of the scene.
        visual_names: Names of MuJoCo's geoms by visual of the scene.
        fixed_bodies: Bodies that should move, but have an impossible mass: they are fixed to their parents.
        rod_lengths: Lengths (m) of tendons of constant length, by name.
        meshes: Names of meshes by a digest of their points.
        moving_spheres: Centres and radii of balls around the colliders that move, None until something asks for them.
    """

    def __init__(self, scene: PhysicsScene, report: Report, options: MujocoOptions) -> None:
        self.spec: Any = mujoco.MjSpec()
        self.scene = scene
        self.report = report
        self.options = options
        self.bodies: list[Any] = []
        self.offsets: list[int] = []
        dofs = 0
        for joint in scene.joints:
            self.offsets.append(dofs)
            dofs += len(joint.dofs)
        self.joint_names = [""] * dofs
        self.actuator_names = {kind: [""] * dofs for kind in DRIVE_KINDS}
        self.actuated = frozenset(
            self.offsets[actuator.joint] + number
            for actuator in scene.actuators
            if actuator.joint >= 0
            for number in range(len(scene.joints[actuator.joint].dofs))
        )
        self.control_names: list[str] = []
        self.balls: list[BallJoint] = []
        self.mimicked = frozenset(
            dof.mimic.joint for joint in scene.joints for dof in joint.dofs if dof.mimic is not None
        )
        self.filtered_bodies = frozenset(scene.apart_bodies)
        self.free_names: list[str] = []
        self.geom_names: list[list[str]] = []
        self.visual_names: list[list[str]] = []
        self.fixed_bodies: set[int] = set()
        self.rod_lengths: dict[str, float] = {}
        self.meshes: dict[str, str] = {}
        self.moving_spheres: tuple[FloatArray, FloatArray] | None = None

    def copy(self, scene: PhysicsScene, report: Report) -> SpecBuilder:
        """Return a builder of a copy of the specification.

        Args:
            scene: A scene that gives the same specification as the builder's own.
            report: Receives what cannot be mapped from now on.
        """
        made = copy.copy(self)
        made.spec, made.scene, made.report = self.spec.copy(), scene, report
        made.bodies = [made.spec.body(body.name) for body in self.bodies]
        made.joint_names, made.free_names = list(self.joint_names), list(self.free_names)
        made.control_names, made.balls = list(self.control_names), list(self.balls)
        made.actuator_names = {kind: list(names) for kind, names in self.actuator_names.items()}
        made.geom_names, made.visual_names = list(self.geom_names), list(self.visual_names)
        made.fixed_bodies, made.rod_lengths = set(self.fixed_bodies), dict(self.rod_lengths)
        made.meshes = dict(self.meshes)
        return made

    def body(self, index: int) -> Any:
        """Return MuJoCo's body (MjsBody) of a body; WORLD_BODY is MuJoCo's world body."""
        return self.spec.worldbody if index == WORLD_BODY else self.bodies[index]

    def tree_joints(self, body: Body) -> list[tuple[int, Joint]]:
        """Return the joints that connect a body to its parent; distance joints do not."""
        joints = self.scene.joints
        return [(index, joints[index]) for index in body.joints if joints[index].type != "distance"]

    def rigid_root(self, index: int) -> int:
        """Return the body that a body is fixed to, directly or through others: itself, or the world.

        A kinematic body is its own. All bodies must have been added.
        """
        while index != WORLD_BODY:
            body = self.scene.bodies[index]
            has_dofs = any(self.scene.joints[joint].dofs for joint in body.joints)
            if body.kinematic or self.free_names[index] or (has_dofs and index not in self.fixed_bodies):
                return index
            index = body.parent
        return WORLD_BODY

    def is_static(self, index: int) -> bool:
        """Return whether the simulation never moves a body: the world, kinematic bodies, and those fixed to them."""
        root = self.rigid_root(index)
        return root == WORLD_BODY or self.scene.bodies[root].kinematic


def set_pose(element: Any, parent_from_element: FloatArray) -> None:
    """Set the pose (7,) of an element of a specification."""
    element.pos = parent_from_element[:3]
    element.quat = wxyz(parent_from_element[3:])


def add_site(body: Any, name: str, body_from_site: FloatArray) -> Any:
    """Add a site that neither lidars nor cameras see to a body of a specification."""
    site = body.add_site(name=name, group=AUXILIARY_GROUP)
    set_pose(site, body_from_site)
    return site


def damper_tendon(joint: str) -> str:
    """Return the name of the tendon for the damping row of a joint with a stiff drive."""
    return f"{joint}:damper"


def drive_tendon(joint: str) -> str:
    """Return the name of the tendon of a joint's drive; `stiff_drives` has its use."""
    return f"{joint}:drive"


def set_linear(element: Any, name: str, value: float) -> None:
    """Set a coefficient that later versions of MuJoCo have as a polynomial: its linear part is the first."""
    coefficient = getattr(element, name)
    if getattr(coefficient, "ndim", 0):
        coefficient[0] = value
    else:
        setattr(element, name, value)


def set_solver_values(element: Any, name: str, values: Any) -> None:
    """Set the first numbers of a solver parameter (solref, solimp); the others keep their defaults."""
    numbers = [values] if isinstance(values, (int, float)) else list(values)
    getattr(element, name)[: len(numbers)] = numbers
