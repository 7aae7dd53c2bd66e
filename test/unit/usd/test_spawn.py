"""What is spawned is where the world's metres and axes say, under its namespace, and leaves nothing when it goes."""

from __future__ import annotations

import numpy as np
import pytest
from pxr import Usd, UsdGeom

from case_tables import each_case
from usd_ros_bridge import load_plan
from usd_ros_bridge.spatial.transforms import exponential, pose
from usd_ros_bridge.usd.edit.spawn import MissingAssetsError, Spawner, UnreadableError

BOX = """#usda 1.0
(
    defaultPrim = "box"
    metersPerUnit = {unit}
    upAxis = "{axis}"
)
def Xform "box" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "RosContextAPI"]) {{
    string ros:context:namespace = "authored"
    double3 xformOp:translate = (7, 7, 7)
    float3 xformOp:scale = (2, 2, 2)
    uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:scale"]
    def Cube "shape" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {{}}
}}
"""


def make_stage(unit=1.0, axis="Z"):
    stage = Usd.Stage.CreateInMemory()
    UsdGeom.SetStageMetersPerUnit(stage, unit)
    UsdGeom.SetStageUpAxis(stage, axis)
    return stage


def make_box(folder, unit=1.0, axis="Z"):
    file = folder / "box.usda"
    file.write_text(BOX.format(unit=unit, axis=axis), encoding="utf-8")
    return file


@each_case("axis", ["Z", "Y"])
@each_case("unit", [1.0, 0.01])
def test_place_is_in_metres_and_z_up_whatever_the_stage(tmp_path, unit, axis):
    stage = make_stage(unit, axis)
    wanted = pose((1.0, 2.0, 3.0), exponential(np.array([0.3, -0.2, 0.9])))
    path = Spawner(stage).spawn(
        "parcel", make_box(tmp_path, unit, axis), namespace="", world_from_prim=wanted
    )
    plan = load_plan(stage, physics=True)
    (body,) = plan.physics.bodies
    assert body.path == path == "/parcel"
    np.testing.assert_allclose(body.world_from_body.translation, wanted[:3], atol=1e-9)
    np.testing.assert_allclose(body.world_from_body.rotation, wanted[3:], atol=1e-7)
    # The scale of the asset stays: a cube of two units, twice as large.
    (collider,) = plan.physics.colliders
    np.testing.assert_allclose(collider.shape.half, np.full(3, 2.0 * unit), rtol=1e-6)


def test_namespace_takes_the_place_of_the_authored_one(tmp_path):
    for namespace, effective in (("", "/authored"), ("mine", "/mine")):
        stage = make_stage()
        Spawner(stage).spawn("parcel", make_box(tmp_path), namespace=namespace, world_from_prim=pose())
        assert [robot.namespace for robot in load_plan(stage).robots] == [effective]


def test_nothing_is_left_of_what_was_removed_or_failed(tmp_path):
    stage = make_stage()
    before = stage.GetSessionLayer().ExportToString()
    spawner = Spawner(stage)
    path = spawner.spawn("parcel", make_box(tmp_path), namespace="mine", world_from_prim=pose())
    assert not spawner.is_free("parcel")
    spawner.remove(path)
    (tmp_path / "broken.usda").write_text("no USD", encoding="utf-8")
    (tmp_path / "empty.usda").write_text("#usda 1.0\n", encoding="utf-8")
    lost = BOX.format(unit=1, axis="Z").replace(
        "prepend apiSchemas", "references = @./gone.usda@\n prepend apiSchemas", 1
    )
    (tmp_path / "lost.usda").write_text(lost, encoding="utf-8")
    for name, error in (
        ("broken", UnreadableError),
        ("empty", UnreadableError),
        ("lost", MissingAssetsError),
    ):
        with pytest.raises(error, match=name):
            spawner.spawn("parcel", tmp_path / f"{name}.usda", namespace="", world_from_prim=pose())
    assert stage.GetSessionLayer().ExportToString() == before
    assert spawner.is_free("parcel")


def test_root_layer_is_never_edited(tmp_path):
    stage = make_stage()
    before = stage.GetRootLayer().ExportToString()
    Spawner(stage).spawn("parcel", make_box(tmp_path), namespace="mine", world_from_prim=pose())
    assert stage.GetRootLayer().ExportToString() == before


def test_names_are_identifiers_that_no_prim_at_the_top_has():
    stage = make_stage()
    stage.DefinePrim("/World")
    spawner = Spawner(stage)
    assert [spawner.is_free(name) for name in ("", "2b", "a-b", "a/b", "World", "parcel")] == [False] * 5 + [
        True
    ]
