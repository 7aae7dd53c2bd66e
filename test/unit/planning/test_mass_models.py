"""Masses as Newton's and MuJoCo's schemas distribute them: shells and meshes against MuJoCo's own compiler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")

import mujoco

from builders.stage_text import bodies, body, findings, plan_text, prim, scene_of, world
from case_tables import each_case
from usd_ros_bridge.model.physics import Box, Capsule, Cone, Cylinder, Mesh, Shape, Sphere
from usd_ros_bridge.planning.physics.volumes import Solid, distributed
from usd_ros_bridge.spatial.transforms import FloatArray, to_matrix

TYPES: dict[str, tuple[Shape, Any, list[float]]] = {
    "sphere": (Sphere(0.3), mujoco.mjtGeom.mjGEOM_SPHERE, [0.3, 0.0, 0.0]),
    "box": (Box((0.1, 0.2, 0.4)), mujoco.mjtGeom.mjGEOM_BOX, [0.1, 0.2, 0.4]),
    "cylinder": (Cylinder(0.2, 0.5), mujoco.mjtGeom.mjGEOM_CYLINDER, [0.2, 0.5, 0.0]),
    "capsule": (Capsule(0.2, 0.5), mujoco.mjtGeom.mjGEOM_CAPSULE, [0.2, 0.5, 0.0]),
}


def compiled(model: Any) -> Solid:
    """Returns what MuJoCo makes of the one geom of the one body of a specification, with a density of 1."""
    made = model.compile()
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, made.body_iquat[1])
    axes = turn.reshape(3, 3)
    return Solid(made.body_mass[1], made.body_ipos[1].copy(), axes @ np.diag(made.body_inertia[1]) @ axes.T)


def same(one: Solid, other: Solid) -> None:
    assert one.volume == pytest.approx(other.volume, rel=1e-6)
    assert one.center == pytest.approx(other.center, abs=1e-6)
    assert one.inertia == pytest.approx(other.inertia, rel=1e-5, abs=1e-6 * np.abs(other.inertia).max())


@each_case("name", TYPES)
def test_shells_of_primitives(name: str) -> None:
    shape, kind, size = TYPES[name]
    spec = mujoco.MjSpec()
    spec.worldbody.add_body().add_geom(
        type=kind, size=size, density=1.0, typeinertia=mujoco.mjtGeomInertia.mjINERTIA_SHELL
    )
    same(distributed(shape, "shell"), compiled(spec))


def pot() -> tuple[FloatArray, Any]:
    """Returns points and triangles of a U: what it encloses, its hull and its tetrahedra's volumes all differ."""
    outline = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.8, 1.0), (0.8, 0.2), (0.2, 0.2), (0.2, 0.7), (0.0, 0.7)]
    points = np.array([(x, y, z) for y in (0.0, 0.3) for x, z in outline])
    cap = [(0, 1, 4), (0, 4, 5), (1, 2, 3), (1, 3, 4), (0, 5, 6), (0, 6, 7)]
    triangles = [*cap, *((8 + c, 8 + b, 8 + a) for a, b, c in cap)]
    for here in range(8):
        there = (here + 1) % 8
        triangles += [(there, here, 8 + here), (there, 8 + here, 8 + there)]
    return points, np.array(triangles, dtype=np.int32)


@each_case("model", ["legacy", "exact", "convex", "shell"])
def test_meshes(model: Any) -> None:
    points, triangles = pot()
    spec = mujoco.MjSpec()
    spec.add_mesh(
        name="pot",
        uservert=points.ravel(),
        userface=triangles.ravel(),
        inertia=getattr(mujoco.mjtMeshInertia, f"mjMESH_INERTIA_{model.upper()}"),
    )
    spec.worldbody.add_body().add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname="pot", density=1.0)
    same(distributed(Mesh(points, triangles, "none"), model), compiled(spec))


@each_case("shape", [each[0] for each in TYPES.values()] + [Cone(0.2, 0.4)])
def test_thin_walls_are_surfaces(shape: Shape) -> None:
    thin, surface = distributed(shape, "shell", 1e-5), distributed(shape, "shell")
    assert thin.volume / 1e-5 == pytest.approx(surface.volume, rel=1e-3)
    assert thin.inertia / 1e-5 == pytest.approx(surface.inertia, rel=1e-3, abs=1e-9)


def test_the_shell_of_a_cone_is_that_of_its_triangles() -> None:
    radius, half, count = 0.2, 0.4, 2000
    angles = np.arange(count) * 2.0 * np.pi / count
    rim = np.column_stack([radius * np.cos(angles), radius * np.sin(angles), np.full(count, -half)])
    points = np.vstack([rim, (0.0, 0.0, half), (0.0, 0.0, -half)])
    sides = [(here, (here + 1) % count, count) for here in range(count)]
    base = [((here + 1) % count, here, count + 1) for here in range(count)]
    mesh = Mesh(points, np.array(sides + base, dtype=np.int32))
    round_one, faceted = distributed(Cone(radius, half), "shell"), distributed(mesh, "shell")
    assert round_one.volume == pytest.approx(faceted.volume, rel=1e-5)
    assert round_one.center == pytest.approx(faceted.center, abs=1e-5)
    assert round_one.inertia == pytest.approx(faceted.inertia, rel=1e-4, abs=1e-7)


def mass_of(*content: str, schemas: str = "", scene: str = "") -> float:
    ball = prim(
        "Sphere", "c", f"PhysicsCollisionAPI PhysicsMassAPI {schemas}", "double radius = 0.5",
        "float physics:density = 2", *content,
    )  # fmt: skip
    settings = prim("PhysicsScene", "scene", "", scene)
    return bodies(scene_of(world(settings, body("b", ball))))["b"].inertial.mass


def test_which_colliders_are_shells() -> None:
    surface, ball = 2.0 * np.pi, 2.0 * np.pi / 6.0
    shell = 'token newton:massModel = "shell"'
    assert mass_of() == pytest.approx(ball)
    assert mass_of('token newton:massModel = "solid"') == pytest.approx(ball)
    assert mass_of(shell) == pytest.approx(surface)
    assert mass_of("bool mjc:shellinertia = true") == pytest.approx(surface)
    # As thick as it says, else as the margin, which is nothing to MuJoCo.
    wall = 2.0 * np.pi / 6.0 * (1.0 - 0.8**3)
    assert mass_of(shell, "float newton:shellThickness = 0.1") == pytest.approx(wall)
    assert mass_of(shell, "float newton:contactMargin = 0.1") == pytest.approx(wall)
    assert mass_of(shell, "float newton:contactMargin = 0.1", schemas="MjcCollisionAPI") == pytest.approx(
        surface
    )


def test_groups_that_weigh_nothing() -> None:
    groups = "int mjc:compiler:inertiaGroupRange:min = 1\nint mjc:compiler:inertiaGroupRange:max = 2"
    assert mass_of("int mjc:group = 1", scene=groups) == pytest.approx(np.pi / 3.0)
    # A ball of 1 kg: it has no mass.
    assert mass_of("int mjc:group = 3", scene=groups) == 1.0
    assert mass_of(scene=groups) == 1.0


def test_a_full_tensor_counts_before_principal_moments() -> None:
    tensor = "double[] newton:inertia = [0.5, 0.6, 0.7, 0.01, 0.02, 0.03]"
    text = body("b", "float physics:mass = 2", "float3 physics:diagonalInertia = (1, 1, 1)", tensor)
    inertial = bodies(scene_of(world(text)))["b"].inertial
    turn = to_matrix(np.array((0.0, 0.0, 0.0, *inertial.principal)))[:3, :3]
    assert turn @ np.diag(inertial.diagonal) @ turn.T == pytest.approx(
        np.array([[0.5, 0.01, 0.02], [0.01, 0.6, 0.03], [0.02, 0.03, 0.7]])
    )


@each_case("tensor", ["[]", "[1, 2]", "[0, 0, 0, 0, 0, 0]", "[nan, 1, 1, 0, 0, 0]"])
def test_a_tensor_that_says_nothing(tensor: str) -> None:
    text = body(
        "b", "float physics:mass = 2", "float3 physics:diagonalInertia = (1, 1, 1)",
        f"double[] newton:inertia = {tensor}",
    )  # fmt: skip
    assert bodies(scene_of(world(text)))["b"].inertial.diagonal == (1.0, 1.0, 1.0)


def test_a_tensor_that_no_body_has() -> None:
    text = body("b", "float physics:mass = 2", "double[] newton:inertia = [1, 1, 3, 0, 0, 0]")
    plan = plan_text(world(text))
    assert [each.path for each in findings(plan, "1.3.inertia")] == ["/World/b"]
