"""What the converter makes: a MuJoCo specification that may still be added to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import mujoco

from usd_ros_bridge.backends.mujoco.balls import Ball
from usd_ros_bridge.backends.mujoco.compiled import Compiled, compile_model
from usd_ros_bridge.backends.protocol import Report
from usd_ros_bridge.model.errors import BackendError
from usd_ros_bridge.model.physics import WORLD_BODY, Body, Joint, PhysicsScene

DEFAULT_TIMESTEP = 0.002
COLLIDER_GROUP = 0
"""Geom group of colliders that are also seen."""
VISUAL_GROUP = 2
"""Geom group of what is only seen."""
HIDDEN_GROUP = 3
"""Geom group of colliders that are not seen. Lidars hit groups 0 and 3, cameras see groups 0 and 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecOptions:
    """What the caller decides about the model.

    Attributes:
        timestep: s; None for what the asset authors, else DEFAULT_TIMESTEP.
        integrator: None for what the asset authors, else implicitfast.
        decompose: Whether meshes are decomposed into convex parts where the asset asks for it.
        max_hulls: Most convex parts of one mesh.
        decompose_seconds: s: how long the decomposition of one mesh may take.
    """

    timestep: float | None = None
    integrator: Literal["euler", "rk4", "implicit", "implicitfast"] | None = None
    decompose: bool = True
    max_hulls: int = 32
    decompose_seconds: float = 60.0


@dataclass(slots=True, kw_only=True, eq=False)
class Built:
    """A MuJoCo specification of a scene, before it is compiled: sites, cameras and sensors may be added.

    Attributes:
        spec: The specification. Its elements are named by prim path, parts with a suffix.
        scene: What it was made from.
        report: Takes what could not be mapped.
        options: What the caller decided.
        bodies: By body of the scene; kinematic bodies are mocap bodies.
        offsets: Flattened index of each joint's first degree of freedom.
        joint_names: Name of MuJoCo's joint by degree of freedom of the scene, all joints in order; "" for none.
        actuator_names: Names of the position, velocity and motor actuators, likewise.
        actuated: Flattened indices of the degrees of freedom that actuators of the asset act on.
        control_names: Names of MuJoCo's actuators by actuator of the scene, "" for none.
        balls: Ball joints.
        mimicked: Joints that others follow.
        free_names: Name of MuJoCo's free joint by body of the scene, "" for none.
        geom_names: Names of MuJoCo's geoms by collider of the scene.
        visual_names: Names of MuJoCo's geoms by visual of the scene.
        held: Bodies that should move and cannot: their mass is impossible.
        rods: Tendons that are to keep their length, by name: m.
        apart_bodies: The scene's, for looking up.
        meshes: Names of meshes by a digest of their points.
    """

    spec: Any
    scene: PhysicsScene
    report: Report
    options: SpecOptions = SpecOptions()
    bodies: list[Any] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    joint_names: list[str] = field(default_factory=list)
    actuator_names: dict[str, list[str]] = field(default_factory=dict)
    actuated: frozenset[int] = frozenset()
    control_names: list[str] = field(default_factory=list)
    balls: list[Ball] = field(default_factory=list)
    mimicked: frozenset[int] = frozenset()
    free_names: list[str] = field(default_factory=list)
    geom_names: list[list[str]] = field(default_factory=list)
    visual_names: list[list[str]] = field(default_factory=list)
    held: set[int] = field(default_factory=set)
    rods: dict[str, float] = field(default_factory=dict)
    apart_bodies: frozenset[tuple[int, int]] = frozenset()
    meshes: dict[str, str] = field(default_factory=dict)

    def body(self, index: int) -> Any:
        """Returns the body (MjsBody) of a body index; WORLD_BODY is MuJoCo's own world body."""
        return self.spec.worldbody if index == WORLD_BODY else self.bodies[index]

    def compile(self) -> Compiled:
        """Compiles the model.

        Raises:
            BackendError: MuJoCo refuses it; the message is MuJoCo's, in one line.
        """
        try:
            return compile_model(self)
        except (ValueError, mujoco.FatalError) as error:
            raise BackendError(f"MuJoCo refuses the asset: {' '.join(str(error).split())}") from error


def dof_offsets(scene: PhysicsScene) -> list[int]:
    """Returns the flattened index of each joint's first degree of freedom."""
    offsets, count = [], 0
    for joint in scene.joints:
        offsets.append(count)
        count += len(joint.dofs)
    return offsets


def tree_joints(scene: PhysicsScene, body: Body) -> list[tuple[int, Joint]]:
    """Returns the joints that carry a body; a distance joint carries nothing."""
    return [(index, scene.joints[index]) for index in body.joints if scene.joints[index].type != "distance"]
