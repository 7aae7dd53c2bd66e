"""Readings of a stage that was read before: they remember what did not change, and give what a first reading gives."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pxr import Gf, Sdf, Tf, Usd, UsdGeom, UsdShade

from effort import examples
from usd_ros_bridge.backends.base import BackendContext
from usd_ros_bridge.model.change import same
from usd_ros_bridge.model.physics import PhysicsScene
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.planning.make_plan import make_plan
from usd_ros_bridge.usd import open_stage, read_stage
from usd_ros_bridge.usd.read.spec_memory import memory_of

mujoco = pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")
ROVER = Path(__file__).parents[2] / "examples" / "rover" / "world.usda"
PART = """#usda 1.0
(
    defaultPrim = "part"
)
def Xform "part" (
    prepend apiSchemas = ["PhysicsRigidBodyAPI"]
    variants = { string shape = "wide" }
    prepend variantSets = "shape"
)
{
    def Mesh "hull" (
        prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMeshCollisionAPI"]
    )
    {
        uniform token physics:approximation = "convexHull"
        uniform token subdivisionScheme = "none"
        int[] faceVertexCounts = [3, 3, 3, 3]
        int[] faceVertexIndices = [0, 2, 1, 0, 1, 3, 1, 2, 3, 0, 3, 2]
        point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
        normal3f[] primvars:normals = [(0, 0, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1)] (
            interpolation = "vertex"
        )
        texCoord2f[] primvars:st = [(0, 0), (1, 0), (0, 1), (1, 1)] (
            interpolation = "vertex"
        )

        def GeomSubset "front"
        {
            uniform token elementType = "face"
            uniform token familyName = "materialBind"
            int[] indices = [0]
        }
    }
    def Cube "block" (
        prepend apiSchemas = ["PhysicsCollisionAPI"]
    )
    {
        double size = 0.2
    }
    variantSet "shape" = {
        "wide" {
            def Cube "more" {
                double size = 0.5
            }
        }
        "narrow" {
            over "block"
            {
                double size = 0.1
            }
        }
    }
}
"""


@pytest.fixture
def stage(tmp_path: Path) -> Usd.Stage:
    """Returns a stage with two references to a part, some joints, a material and an animated prim."""
    (tmp_path / "part.usda").write_text(PART, encoding="utf-8")
    made = Usd.Stage.CreateNew(str(tmp_path / "world.usda"))
    world = UsdGeom.Xform.Define(made, "/World")
    made.SetDefaultPrim(world.GetPrim())
    for number in range(2):
        part = made.DefinePrim(f"/World/part_{number}", "Xform")
        part.GetReferences().AddReference("./part.usda")
        UsdGeom.Xformable(part).AddTranslateOp().Set(Gf.Vec3d(2.0 * number, 0.0, 1.0))
    material = UsdShade.Material.Define(made, "/World/paint")
    shader = UsdShade.Shader.Define(made, "/World/paint/surface")
    shader.CreateIdAttr("UsdPreviewSurface")
    shader.CreateInput("diffuseColor", Sdf.ValueTypeNames.Color3f).Set(Gf.Vec3f(1.0, 0.0, 0.0))
    material.CreateSurfaceOutput().ConnectToSource(shader.ConnectableAPI(), "surface")
    lamp = UsdGeom.Sphere.Define(made, "/World/lamp")
    lamp.AddTranslateOp().Set(Gf.Vec3d(0.0, 0.0, 3.0), 1.0)
    return made


def plan_of(stage: Usd.Stage, *, again: bool) -> BridgePlan:
    return make_plan(read_stage(stage, asset="stage", physics=True, again=again), PlanOptions())


class Simulated:
    """MuJoCo's models of one plan after another: by backends that succeed each other, and by new ones."""

    def __init__(self) -> None:
        from usd_ros_bridge.backends.mujoco import MujocoBackend

        self._backend = MujocoBackend()

    def succeed(self, plan: BridgePlan) -> tuple[object, ...]:
        """Returns the model of the next backend, byte for byte, and what it reports."""
        self._backend = self._backend.new_instance()
        return self._open(self._backend, plan)

    def begin(self, plan: BridgePlan) -> tuple[object, ...]:
        """Returns the same of a backend that succeeds none."""
        return self._open(type(self._backend)(), plan)

    def _open(self, backend: Any, plan: BridgePlan) -> tuple[object, ...]:
        reports: list[tuple[str, str]] = []
        backend.open(BackendContext(plan=plan, report=lambda *report: reports.append(report)))
        model = backend.simulation.model
        buffer = np.empty(mujoco.mj_sizeModel(model), np.uint8)
        mujoco.mj_saveModel(model, None, buffer)
        backend.close()
        return buffer.tobytes(), reports


def add_scan(stage: Usd.Stage, path: str) -> Usd.Prim:
    """Adds a publisher of a LaserScan."""
    prim = stage.DefinePrim(path, "Xform")
    for schema in ("RosFrameAPI", "RosTopicAPI"):
        prim.AddAppliedSchema(schema)
    types = Sdf.ValueTypeNames
    for name, type_name, value in (
        ("type", types.String, "sensor_msgs/msg/LaserScan"),
        ("role", types.Token, "publisher"),
        ("name", types.String, "high_scan"),
        ("publish_rate", types.Double, 10.0),
    ):
        prim.CreateAttribute(f"ros:topic:{name}", type_name).Set(value)
    return prim


class Edits:
    """Random edits of the stage in all of its layers."""

    def __init__(self, stage: Usd.Stage, seed: int) -> None:
        self._stage = stage
        self._random = random.Random(seed)
        part = stage.GetPrimAtPath("/World/part_0").GetPrimStack()[-1].layer
        self._part = part
        self._kinds: tuple[Callable[[], object], ...] = (
            self.select, self.move, self.resize, self.reshape, self.bind, self.face, self.inherit, self.apply,
            self.name, self.deactivate, self.animate, self.block, self.reload, self.offset, self.clip,
            self.sense, self.sense, self.sense,
        )  # fmt: skip
        self._text = part.ExportToString()

    def edit(self) -> None:
        """Does an edit."""
        layer = self._random.choice((self._stage.GetSessionLayer(), self._stage.GetRootLayer()))
        with Usd.EditContext(self._stage, layer):
            try:
                self._random.choice(self._kinds)()
            except (RuntimeError, Tf.ErrorException):
                # What it would edit is deactivated.
                return

    def _number(self) -> float:
        return self._random.choice((0.1, 0.3, 0.7))

    def _part_prim(self, below: str = "") -> Usd.Prim:
        return self._stage.OverridePrim(f"/World/part_{self._random.randrange(2)}{below}")

    def select(self) -> None:
        variant = self._random.choice(("wide", "narrow", "none_such"))
        self._part_prim().GetVariantSet("shape").SetVariantSelection(variant)

    def move(self) -> None:
        op = self._part_prim().CreateAttribute("xformOp:translate", Sdf.ValueTypeNames.Double3)
        op.Set(Gf.Vec3d(self._number(), 0.0, 1.0))

    def resize(self) -> None:
        size = self._part_prim("/block").CreateAttribute("size", Sdf.ValueTypeNames.Double)
        size.Set(self._number())

    def reshape(self) -> None:
        points = [Gf.Vec3f(0, 0, 0), Gf.Vec3f(1, 0, 0), Gf.Vec3f(0, 1, 0), Gf.Vec3f(0, 0, self._number())]
        self._part.GetAttributeAtPath("/part/hull.points").default = points

    def bind(self) -> None:
        prim = self._part_prim(self._random.choice(("/hull", "/hull/front", "")))
        UsdShade.MaterialBindingAPI.Apply(prim).Bind(UsdShade.Material.Get(self._stage, "/World/paint"))
        shader = UsdShade.Shader.Get(self._stage, "/World/paint/surface")
        shader.GetInput("diffuseColor").Set(Gf.Vec3f(self._number(), 0.0, 0.0))

    def face(self) -> None:
        indices = self._part_prim("/hull/front").CreateAttribute("indices", Sdf.ValueTypeNames.IntArray)
        indices.Set([self._random.randrange(4)])

    def inherit(self) -> None:
        colors = self._part_prim().CreateAttribute("primvars:displayColor", Sdf.ValueTypeNames.Color3fArray)
        colors.Set([Gf.Vec3f(self._number())])

    def apply(self) -> None:
        block = self._part_prim("/block")
        (block.ApplyAPI if self._random.random() < 0.5 else block.RemoveAPI)("PhysicsCollisionAPI")

    def name(self) -> None:
        child = self._stage.DefinePrim(f"/World/part_{self._random.randrange(2)}/_2nd", "Xform")
        child.ApplyAPI("PhysicsRigidBodyAPI")
        child.SetDisplayName(self._random.choice(("2nd", "third", "")))

    def deactivate(self) -> None:
        prim = self._part_prim(self._random.choice(("/block", "/hull")))
        prim.SetActive(not prim.IsActive())

    def animate(self) -> None:
        size = self._part_prim("/block").CreateAttribute("size", Sdf.ValueTypeNames.Double)
        size.Set(self._number(), self._random.choice((1.0, 2.0)))

    def sense(self) -> None:
        add_scan(self._stage, "/World/part_0/scan").SetActive(self._random.random() < 0.7)

    def block(self) -> None:
        self._part_prim("/hull").GetAttribute("points").Block()

    def reload(self) -> None:
        self._part.ImportFromString(self._text.replace("0.2", str(self._number())))

    def offset(self) -> None:
        references = self._part_prim().GetReferences()
        references.ClearReferences()
        references.AddReference("./part.usda", Sdf.LayerOffset(self._number()))

    def clip(self) -> None:
        layer = Sdf.Layer.CreateAnonymous("clip.usda")
        layer.ImportFromString(
            '#usda 1.0\nover "part" {\n over "block" {\n'
            f" double size.timeSamples = {{ 0: {self._number()} }}\n }}\n}}\n"
        )
        self._clip = layer
        clips = Usd.ClipsAPI(self._part_prim())
        clips.SetClipAssetPaths([Sdf.AssetPath(layer.identifier)])
        clips.SetClipPrimPath("/part")
        clips.SetClipManifestAssetPath(Sdf.AssetPath(layer.identifier))
        clips.SetClipActive([(0.0, 0.0)])
        clips.SetClipTimes([(0.0, 0.0)])


@pytest.mark.random
@pytest.mark.timeout(120 + 30 * examples(1))
@pytest.mark.parametrize("seed", range(examples(8)))
def test_a_reading_gives_what_the_first_one_gives(stage: Usd.Stage, seed: int) -> None:
    edits, simulated = Edits(stage, seed), Simulated()
    for _ in range(15):
        remembered, fresh = (plan_of(stage, again=again) for again in (True, False))
        for name in BridgePlan.__dataclass_fields__:
            assert same(getattr(remembered, name), getattr(fresh, name)), name
        assert simulated.succeed(remembered) == simulated.begin(fresh)
        edits.edit()


def test_meshes_that_did_not_change_are_not_read_again(stage: Usd.Stage) -> None:
    def points() -> list[Any]:
        physics = read_stage(stage, asset="stage", physics=True, again=True).physics
        assert physics is not None
        return [each.points for each in physics.geometries if each.type_name == "Mesh"]

    first = points()
    with Usd.EditContext(stage, stage.GetSessionLayer()):
        stage.GetPrimAtPath("/World/part_0").GetVariantSet("shape").SetVariantSelection("narrow")
    second = points()
    assert len(first) == 2
    assert all(one is other for one, other in zip(first, second, strict=True))
    stage.GetPrimAtPath("/World/part_0/hull").GetAttribute("points").Set([Gf.Vec3f(0.5)] * 4)
    third = points()
    assert [one is other for one, other in zip(second, third, strict=True)] == [False, True]


def test_a_scene_that_differs_in_its_sensors_alone_is_not_built_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from usd_ros_bridge.backends.mujoco import backend

    built = []

    def build(scene: PhysicsScene, *arguments: Any, **options: Any) -> Any:
        built.append(len(scene.sensors))
        return build_spec(scene, *arguments, **options)

    build_spec = backend.build_spec
    monkeypatch.setattr(backend, "build_spec", build)
    stage, simulated = open_stage(str(ROVER)), Simulated()
    stage.SetEditTarget(stage.GetSessionLayer())
    scan = add_scan(stage, "/World/rover/high_scan")
    models = []
    for number in range(4):
        scan.SetActive(number % 2 == 1)
        models.append(simulated.succeed(plan_of(stage, again=True)))
    assert len(built) == 1
    assert models[0] == models[2] != models[1]
    stage.OverridePrim("/World/Environment/crate").SetActive(False)
    assert simulated.succeed(plan_of(stage, again=True)) != models[0]
    assert len(built) == 2


def test_a_memory_holds_what_the_last_reading_read(stage: Usd.Stage) -> None:
    sizes = []
    for number in range(6):
        stage.GetPrimAtPath("/World/part_0").GetVariantSet("shape").SetVariantSelection(
            ("wide", "narrow")[number % 2]
        )
        read_stage(stage, asset="stage", physics=True, again=True)
        sizes.append(len(memory_of(stage)))
    assert sizes[::2] == sizes[:1] * 3
    assert sizes[1::2] == sizes[1:2] * 3


def test_a_memory_ends_with_the_stage() -> None:
    made = Usd.Stage.CreateInMemory()
    made.DefinePrim("/World", "Cube")
    read_stage(made, asset="stage", physics=True, again=True)
    memory, layer = weakref.ref(memory_of(made)), made.GetRootLayer().identifier
    del made
    gc.collect()
    assert memory() is None
    assert Sdf.Layer.Find(layer) is None
