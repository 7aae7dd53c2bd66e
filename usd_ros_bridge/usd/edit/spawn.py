"""Spawn: reference assets into a stage on its session layer, with a pose and a namespace, and remove them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pxr import Gf, Sdf, Tf, Usd, UsdGeom

from usd_ros_bridge.errors import AssetError, BridgeError, error_text, quoted
from usd_ros_bridge.spatial.transforms import FloatArray
from usd_ros_bridge.usd.edit.lock import lock_of
from usd_ros_bridge.usd.layer_files import FileRefusedError, files_of
from usd_ros_bridge.usd.layer_scan import scan_layers
from usd_ros_bridge.usd.packages import PackageMap
from usd_ros_bridge.usd.prim_scan import check_prim_count
from usd_ros_bridge.usd.tf_errors import first_line, quiet

_CONTEXT = "RosContextAPI"
_NAMESPACE = "ros:context:namespace"
_OP = "usd_ros_bridge"


class UnreadableError(BridgeError):
    """A file is no USD asset that can be referenced."""


class MissingAssetsError(BridgeError):
    """An asset refers to files that are not there, or that it must not reach."""


class Spawner:
    """Spawn and remove assets on the session layer of a stage. Use it in the tick thread only."""

    def __init__(self, stage: Any) -> None:
        """Store the stage.

        Args:
            stage: A Usd.Stage.
        """
        self._stage = stage

    def is_free(self, name: str) -> bool:
        """Return whether `name` is a prim name that no prim at the top of the stage has."""
        return bool(Sdf.Path.IsValidIdentifier(name)) and not self._stage.GetPrimAtPath(f"/{name}")

    def spawn(self, name: str, file: Path, *, namespace: str, world_from_prim: FloatArray) -> str:
        """Reference the default prim of a file as a prim at the top of the stage.

        A namespace replaces the one of the asset's outermost context; it makes a context of a prim that is none.

        Args:
            name: Prim name, free.
            file: The asset.
            namespace: "" for what the asset itself says.
            world_from_prim: (7,) in the ROS world, m.

        Returns:
            The prim's path.

        Raises:
            UnreadableError: The file cannot be read, or has no default prim.
            MissingAssetsError: Something that it refers to is not there, or may not be reached.
        """
        path = Sdf.Path(f"/{name}")
        layer = self._checked_layer(file)
        before = {error_text(error) for error in self._stage.GetCompositionErrors()}
        try:
            with quiet(), lock_of(self._stage), Usd.EditContext(self._stage, self._stage.GetSessionLayer()):
                prim = self._stage.DefinePrim(path)
                prim.GetReferences().AddReference(layer.identifier)
                prim.Load()
                new = [
                    error for error in self._stage.GetCompositionErrors() if error_text(error) not in before
                ]
                if new:
                    raise MissingAssetsError(f"{quoted(file.name)}: {first_line(new[0])}")
                self._place(prim, world_from_prim)
                if namespace:
                    prim.AddAppliedSchema(_CONTEXT)
                    prim.CreateAttribute(_NAMESPACE, Sdf.ValueTypeNames.String, custom=False).Set(namespace)
        except Tf.ErrorException as error:
            self.remove(str(path))
            raise UnreadableError(f"{quoted(file.name)}: {first_line(error)}") from None
        except BridgeError:
            self.remove(str(path))
            raise
        finally:
            files_of(self._stage).release()
        return str(path)

    def remove(self, path: str) -> None:
        """Remove the prim of a spawned asset."""
        with quiet(), lock_of(self._stage), Usd.EditContext(self._stage, self._stage.GetSessionLayer()):
            self._stage.RemovePrim(path)

    def _place(self, prim: Any, world_from_prim: FloatArray) -> None:
        """Put a prim where it is wanted, in the stage's units and axes; the scale that it has stays."""
        xformable = UsdGeom.Xformable(prim)
        if not xformable:
            raise UnreadableError(
                f"{quoted(prim.GetName())}: the default prim cannot be placed: it is no Xform"
            )
        scale = Gf.Transform(xformable.GetLocalTransformation()).GetScale()
        x, y, z, qx, qy, qz, qw = world_from_prim.tolist()
        rotation = Gf.Matrix4d(Gf.Rotation(Gf.Quatd(qw, qx, qy, qz)), Gf.Vec3d(x, y, z))
        if UsdGeom.GetStageUpAxis(self._stage) == UsdGeom.Tokens.y:
            rotation *= Gf.Matrix4d().SetRotate(Gf.Rotation(Gf.Vec3d(1.0, 0.0, 0.0), -90.0))
        unit = UsdGeom.GetStageMetersPerUnit(self._stage)
        rotation.SetTranslateOnly(rotation.ExtractTranslation() / unit)
        operation = xformable.AddTransformOp(opSuffix=_OP)
        operation.Set(Gf.Matrix4d().SetScale(scale) * rotation)
        xformable.SetXformOpOrder([operation], resetXformStack=False)

    def _checked_layer(self, file: Path) -> Any:
        """Return the layer of a file, once it is known what it reaches for."""
        files = files_of(self._stage)
        try:
            with quiet():
                layer = files.open(str(file))
                if not layer:
                    raise UnreadableError(f"{quoted(file.name)} cannot be read as USD")
                if not layer.defaultPrim:
                    raise UnreadableError(f"{quoted(file.name)} has no default prim to reference")
                scan = scan_layers(layer, PackageMap(), files=files, follow_payloads=True)
                context = self._stage.GetPathResolverContext()
                check_prim_count(layer, None, context, files.options)
        except Tf.ErrorException as error:
            raise UnreadableError(f"{quoted(file.name)}: {first_line(error)}") from None
        except (AssetError, FileRefusedError) as error:
            raise UnreadableError(f"{quoted(file.name)}: {error}") from None
        if scan.refusals:
            raise MissingAssetsError(f"{quoted(file.name)}: {scan.refusals[0].diagnostic.message}")
        return layer
