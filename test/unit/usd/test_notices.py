"""What of an edit is heard of: structure, not motion; not the bridge's own; on whatever thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics

from usd_ros_bridge.usd.edit.notices import MAX_PATHS, WHOLE_STAGE, StageListener


class Heard:
    """A stage with a robot, and who listens to it."""

    def __init__(self, *, owned: bool = False) -> None:
        self.stage = Usd.Stage.CreateInMemory()
        for path in ("/world", "/world/robot", "/world/robot/link", "/world/robot/frame", "/props/lamp"):
            self.stage.DefinePrim(path, "Xform")
            UsdGeom.Xformable(self.stage.GetPrimAtPath(path)).AddTranslateOp().Set(Gf.Vec3d(0.0))
        UsdPhysics.RigidBodyAPI.Apply(self.prim("/world/robot/link"))
        self.prim("/world/robot").AddAppliedSchema("RosContextAPI")
        self.prim("/world/robot/frame").AddAppliedSchema("RosFrameAPI")
        self.stage.DefinePrim("/world/robot/link/shape", "Cube")
        self.calls: list[int] = []
        self.listener = StageListener(
            self.stage, lambda: self.calls.append(threading.get_ident()), owned=owned
        ).open()

    def prim(self, path: str) -> Usd.Prim:
        return self.stage.GetPrimAtPath(path)

    def translate(self, path: str, time: float | None = None) -> None:
        code = Usd.TimeCode.Default() if time is None else Usd.TimeCode(time)
        self.prim(path).GetAttribute("xformOp:translate").Set(Gf.Vec3d(1.0, 2.0, time or 3.0), code)


@pytest.fixture
def heard() -> Iterator[Heard]:
    made = Heard()
    yield made
    made.listener.close()


def test_structure_is_noticed_once_until_it_is_taken(heard: Heard) -> None:
    heard.prim("/world/robot").SetActive(False)
    heard.prim("/world/robot").SetActive(True)
    assert heard.calls == [threading.get_ident()]
    assert heard.listener.take() == {"/world/robot"}
    assert heard.listener.take() == frozenset()
    attribute = heard.prim("/world/robot").CreateAttribute("ros:context:namespace", Sdf.ValueTypeNames.String)
    attribute.Set("robot")
    assert heard.listener.take() == {"/world/robot.ros:context:namespace"}
    assert len(heard.calls) == 2
    attribute.Set("other")
    assert heard.listener.take() == {"/world/robot.ros:context:namespace"}


@pytest.mark.parametrize(
    "edit",
    [
        lambda heard: heard.translate("/world/robot/link"),
        lambda heard: heard.translate("/world/robot/link", 2.0),
        lambda heard: heard.translate("/world"),
        lambda heard: heard.translate("/props/lamp"),
        lambda heard: UsdGeom.Xformable(heard.prim("/world/robot/link")).AddOrientOp(),
        lambda heard: UsdGeom.Imageable(heard.prim("/world/robot/frame")).MakeInvisible(),
        lambda heard: (
            UsdPhysics.RigidBodyAPI(heard.prim("/world/robot/link")).CreateVelocityAttr().Set((1, 0, 0))
        ),
        lambda heard: (
            heard.prim("/world/robot/link")
            .CreateAttribute("state:angular:physics:position", Sdf.ValueTypeNames.Float)
            .Set(3.0)
        ),
        lambda heard: heard.prim("/world/robot").SetDocumentation("words"),
    ],
    ids=["body", "body sampled", "above", "prop", "op", "visibility", "velocity", "joint", "words"],
)
def test_what_moves_or_is_said_is_no_edit_of_a_hosts_stage(
    heard: Heard, edit: Callable[[Heard], None]
) -> None:
    edit(heard)
    assert heard.listener.take() == frozenset()
    assert heard.calls == []


def test_frames_and_geometry_of_bodies_may_not_move_unnoticed(heard: Heard) -> None:
    heard.translate("/world/robot/frame")
    assert heard.listener.take() == {"/world/robot/frame.xformOp:translate"}
    UsdGeom.Xformable(heard.prim("/world/robot/link/shape")).AddTranslateOp()
    assert "/world/robot/link/shape.xformOp:translate" in heard.listener.take()
    # A frame that moves over time is seen to move when the stage is read.
    heard.translate("/world/robot/frame", 1.0)
    assert heard.listener.take() == frozenset()


def test_a_body_that_comes_makes_motion_of_what_was_a_frame(heard: Heard) -> None:
    heard.translate("/world/robot/frame")
    UsdPhysics.RigidBodyAPI.Apply(heard.prim("/world/robot/frame"))
    assert "/world/robot/frame" in heard.listener.take()
    heard.translate("/world/robot/frame")
    assert heard.listener.take() == frozenset()


def test_every_transform_counts_on_a_stage_of_the_bridges_own() -> None:
    heard = Heard(owned=True)
    heard.translate("/world/robot/link")
    heard.translate("/world", 1.0)
    assert heard.listener.take() == {"/world/robot/link.xformOp:translate", "/world.xformOp:translate"}
    UsdGeom.Imageable(heard.prim("/world")).MakeInvisible()
    assert heard.listener.take() == frozenset()
    heard.listener.close()


def test_the_speed_of_a_belt_counts_on_a_stage_of_the_bridges_own(heard: Heard) -> None:
    own = Heard(owned=True)
    for each, kinematic, expected in ((own, True, 2), (own, False, 0), (heard, True, 0)):
        body = UsdPhysics.RigidBodyAPI(each.prim("/world/robot/link"))
        body.CreateKinematicEnabledAttr().Set(kinematic)
        body.CreateVelocityAttr().Set((0, 0, 0))
        body.CreateAngularVelocityAttr().Set((0, 0, 0))
        each.listener.take()
        body.GetVelocityAttr().Set((1, 0, 0))
        body.GetAngularVelocityAttr().Set((0, 0, 1))
        assert len(each.listener.take()) == expected
    own.prim("/world/robot/link").SetCustomDataByKey("physics:localSpaceVelocities", False)
    assert own.listener.take() == {"/world/robot/link"}
    own.prim("/world/robot").SetCustomDataByKey("physics:localSpaceVelocities", False)
    assert own.listener.take() == frozenset()
    own.listener.close()


def test_own_edits_are_not_noticed_those_of_other_threads_are(heard: Heard) -> None:
    with heard.listener.own_edits():
        heard.stage.DefinePrim("/own")
        other = threading.Thread(target=lambda: heard.stage.DefinePrim("/other"))
        other.start()
        other.join()
        with heard.listener.own_edits():
            heard.stage.DefinePrim("/nested")
        heard.stage.DefinePrim("/own_still")
    assert heard.listener.take() == {"/other"}
    assert heard.calls != [threading.get_ident()]
    heard.stage.DefinePrim("/after")
    assert heard.listener.take() == {"/after"}


def test_variants_muting_and_metadata_of_the_stage_are_noticed(heard: Heard) -> None:
    UsdGeom.SetStageMetersPerUnit(heard.stage, 0.01)
    assert heard.listener.take() == {WHOLE_STAGE}
    sets = heard.prim("/world/robot").GetVariantSets().AddVariantSet("head")
    sets.AddVariant("none")
    heard.listener.take()
    sets.SetVariantSelection("none")
    assert heard.listener.take() == {"/world/robot"}
    layer = Sdf.Layer.CreateAnonymous()
    Sdf.CreatePrimInLayer(layer, "/world/robot/more")
    heard.stage.GetRootLayer().subLayerPaths.append(layer.identifier)
    assert heard.listener.take()
    heard.stage.MuteLayer(layer.identifier)
    assert WHOLE_STAGE in heard.listener.take()


def test_more_paths_than_are_worth_holding_are_the_whole_stage(heard: Heard) -> None:
    with Sdf.ChangeBlock():
        for number in range(MAX_PATHS + 1):
            Sdf.CreatePrimInLayer(heard.stage.GetRootLayer(), f"/many_{number}")
    assert heard.listener.take() == {WHOLE_STAGE}


def test_nobody_listens_after_the_end(heard: Heard) -> None:
    heard.listener.close()
    heard.listener.close()
    heard.stage.DefinePrim("/late")
    assert heard.listener.take() == frozenset()
