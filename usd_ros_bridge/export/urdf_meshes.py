"""Where a URDF's mesh files come from: URDF holds no triangles, it names files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.looks import Color
from usd_ros_bridge.model.physics import Mesh
from usd_ros_bridge.model.records import Vector3


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshFile:
    """A file that holds a mesh.

    Attributes:
        uri: What `<mesh filename="...">` says: `file://` or `package://`.
        scale: What the file's points are multiplied by, metres in the file where it is 1.
        has_looks: Whether the file brings its own colours or texture: then the URDF says none beside it.
        diagnostics: What of its looks could not be written, and is not in the file.
    """

    uri: str
    scale: Vector3 = (1.0, 1.0, 1.0)
    has_looks: bool = False
    diagnostics: tuple[Diagnostic, ...] = ()


class MeshFiles(Protocol):
    """Puts meshes into files."""

    def place(self, mesh: Mesh, *, path: str, color: Color | None = None) -> MeshFile | Diagnostic:
        """Returns the file that holds `mesh`, writing it where there is none yet.

        Args:
            mesh: In the frame of its shape, metres, scale folded in.
            path: Path of the prim, for what is said about it.
            color: Of what is to be seen; None for what only collides: the mesh's skin is then of no use.

        Returns:
            The file, or why there is none: the shape is then left out, and the rest goes on.
        """
        ...
