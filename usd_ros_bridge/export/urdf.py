"""A robot of a plan as URDF: what robot_state_publisher, RViz, MoveIt and Nav2 read a robot from."""

from __future__ import annotations

from dataclasses import dataclass

from usd_ros_bridge.export.urdf_meshes import MeshFiles
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.plan import BridgePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Urdf:
    """A robot description.

    Attributes:
        name: Name of the robot: that of its context prim.
        text: The XML document.
        links: Names of the links, the root first, parents before children.
        joints: Names of the joints, in the order of the links that they carry.
        extra_links: Those of `links` that are no frame of the bridge: massless ones, between the several degrees of
            freedom of a joint, or where a joint's axis does not pass through its child's origin.
        diagnostics: What URDF cannot say, and what of the asset was left out.
    """

    name: str
    text: str
    links: tuple[str, ...] = ()
    joints: tuple[str, ...] = ()
    extra_links: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def robot_urdf(plan: BridgePlan, robot: int, *, meshes: MeshFiles | None = None) -> Urdf:
    """Returns a robot of a plan as URDF.

    Args:
        plan: The plan. Masses, shapes and effort limits of drives are those of `plan.physics`; a plan without physics
            gives links and joints only.
        robot: Index in `plan.robots`.
        meshes: Puts meshes into files; None leaves them out.

    Returns:
        The description; it never raises for what an asset says.
    """
    raise NotImplementedError
