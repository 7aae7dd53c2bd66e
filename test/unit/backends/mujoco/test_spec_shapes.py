"""Colliders and visuals: what shapes become, held to where rays meet them and what comes to rest on them."""

from __future__ import annotations

import math
import subprocess
from typing import Any

import numpy as np
import pytest

from case_tables import each_case

pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")

import mujoco
import scipy.spatial as scipy_spatial
from spec_scenes import UNIT, Reports, body_pose, built, collider, run, simulated, turned

from usd_ros_bridge.backends.mujoco import convex_parts
from usd_ros_bridge.backends.mujoco.compiled_model import compile_model
from usd_ros_bridge.backends.mujoco.spec_builder import COLLIDER_GROUP, HIDDEN_GROUP, VISUAL_GROUP
from usd_ros_bridge.model.physics import (
    WORLD_BODY,
    Body,
    Box,
    Capsule,
    Cone,
    ContactMaterial,
    Cylinder,
    Inertial,
    Mesh,
    PhysicsScene,
    Plane,
    Shape,
    Sphere,
    Visual,
)
from usd_ros_bridge.spatial.pose import IDENTITY_POSE, Pose
from usd_ros_bridge.spatial.transforms import rotate

RED = (1.0, 0.0, 0.0, 1.0)


def grid(size: int, height: Any) -> Mesh:
    """Returns the terrain z = height(x, y) over [-1, 1]^2."""
    line = np.linspace(-1.0, 1.0, size)
    x, y = np.meshgrid(line, line, indexing="ij")
    points = np.column_stack([x.ravel(), y.ravel(), height(x, y).ravel()])
    corner = (np.arange(size - 1)[:, None] * size + np.arange(size - 1)).ravel()
    lower = np.column_stack([corner, corner + size, corner + size + 1])
    upper = np.column_stack([corner, corner + size + 1, corner + 1])
    return Mesh(points, np.vstack([lower, upper]).astype(np.int32))


def flat(x: Any, y: Any) -> Any:
    return 0.0 * (x + y)


def ramp(x: Any, y: Any) -> Any:
    return 0.2 * x + 0.0 * y


def cuboid(
    low: tuple[float, ...], high: tuple[float, ...]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    points = np.array([[(low, high)[i][0], (low, high)[j][1], (low, high)[k][2]]
                       for i in (0, 1) for j in (0, 1) for k in (0, 1)])  # fmt: skip
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    triangles = [(q[0], q[i], q[i + 1]) for q in quads for i in (1, 2)]
    return points, np.array(triangles, dtype=np.int32)


def bracket(approximation: Any = "none") -> Mesh:
    """Returns an L in the XZ plane: a foot [0, 1] x [0, 0.2] and a wall [0, 0.2] x [0, 1], 0.4 m deep."""
    outline = np.array([(0.0, 0.0), (1.0, 0.0), (1.0, 0.2), (0.2, 0.2), (0.2, 1.0), (0.0, 1.0)])
    front = np.column_stack([outline[:, 0], np.full(6, -0.2), outline[:, 1]])
    back = np.column_stack([outline[:, 0], np.full(6, 0.2), outline[:, 1]])
    faces = [(0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5)]
    triangles = [*faces, *((6 + c, 6 + b, 6 + a) for a, b, c in faces)]
    for here in range(6):
        there = (here + 1) % 6
        triangles += [(there, here, 6 + here), (there, 6 + here, 6 + there)]
    return Mesh(np.vstack([front, back]), np.array(triangles, dtype=np.int32), approximation)


def height_of(shape: Shape, at: tuple[float, float] = (0.0, 0.0), pose: Pose = IDENTITY_POSE) -> float:
    """Returns where a ray from above meets a static collider."""
    _, model, data = simulated(PhysicsScene(colliders=(collider(WORLD_BODY, shape, pose=pose),)), Reports())
    geom = np.zeros(1, dtype=np.int32)
    start = np.array([*at, 10.0])
    return 10.0 - float(mujoco.mj_ray(model, data, start, np.array([0.0, 0.0, -1.0]), None, 1, -1, geom))


@each_case(
    ("shape", "at", "height"),
    [
        (Sphere(0.5), (0.3, 0.0), 0.4),
        (Box((0.1, 0.2, 0.3)), (0.09, 0.19), 0.3),
        (Capsule(0.2, 0.5), (0.12, 0.0), 0.66),
        (Capsule(0.2, 0.0), (0.12, 0.0), 0.16),
        (Cylinder(0.2, 0.5), (0.19, 0.0), 0.5),
        (Cone(0.4, 0.5), (0.0003, 0.0002), 0.5),
        (Cone(0.4, 0.5), (0.2, 0.002), 0.0),
        (Plane(), (3.0, 4.0), 0.0),
        (grid(9, ramp), (0.5, 0.3), 0.1),
    ],
)
def test_a_shape_is_where_it_should_be(shape: Shape, at: tuple[float, float], height: float) -> None:
    assert height_of(shape, at) == pytest.approx(height, abs=2e-3)
    lifted = Pose((1.0, 2.0, 0.25))
    assert height_of(shape, (at[0] + 1.0, at[1] + 2.0), lifted) == pytest.approx(height + 0.25, abs=2e-3)


def test_a_turned_shape_is_turned() -> None:
    assert height_of(Cylinder(0.1, 0.5), (0.4, 0.0), turned("Y", math.pi / 2)) == pytest.approx(0.1, abs=1e-6)
    assert math.isclose(height_of(Cone(0.1, 0.5), (0.0, 0.0), turned("Y", math.pi / 2)), 0.05, abs_tol=2e-3)


@each_case("shape", [Sphere(0.0), Box((0.1, -0.1, 0.1)), Cylinder(math.nan, 1.0), Cone(1.0, 0.0)])
def test_a_shape_without_size_is_reported_and_left_out(shape: Shape) -> None:
    reports = Reports()
    compiled, _, _ = simulated(PhysicsScene(colliders=(collider(WORLD_BODY, shape),)), reports)
    assert list(reports) == ["mujoco.shape:/collider_-1"]
    assert compiled.geom_ids[0].size == 0


@pytest.mark.parametrize(
    "mesh",
    [
        Mesh(np.zeros((0, 3)), np.zeros((0, 3), dtype=np.int32)),
        Mesh(np.full((4, 3), np.nan), np.array([[0, 1, 2]], dtype=np.int32)),
    ],
)
def test_a_mesh_with_nothing_in_it_is_reported_and_left_out(mesh: Mesh) -> None:
    reports = Reports()
    compiled, _, _ = simulated(PhysicsScene(colliders=(collider(WORLD_BODY, mesh),)), reports)
    assert list(reports) == ["mujoco.shape:/collider_-1"]
    assert compiled.geom_ids[0].size == 0


# --- What rests on what -------------------------------------------------------------------------------------------


def rests_at(ground: Shape, above: tuple[float, float], *, radius: float = 0.05, drop: float = 1.3) -> float:
    """Returns the height of the lowest point of a rough ball that was dropped, once it lies."""
    rough = ContactMaterial(static_friction=1.0, dynamic_friction=1.0)
    scene = PhysicsScene(
        bodies=(Body(path="/ball", inertial=UNIT, world_from_body=Pose((*above, drop))),),
        colliders=(
            collider(0, Sphere(radius), material=rough),
            collider(WORLD_BODY, ground, path="/ground", material=rough),
        ),
    )
    compiled, model, data = simulated(scene, Reports())
    run(model, data, 1.5)
    return float(body_pose(compiled, data, 0)[2]) - radius


def test_a_static_mesh_collides_as_it_is() -> None:
    """On the foot of the L: its convex hull would hold the ball up on the slope between foot and wall."""
    assert rests_at(bracket(), (0.6, 0.0)) == pytest.approx(0.2, abs=3e-3)
    assert rests_at(bracket(), (0.1, 0.0)) == pytest.approx(1.0, abs=3e-3)
    assert rests_at(bracket("meshSimplification"), (0.6, 0.0)) == pytest.approx(0.2, abs=3e-3)


def test_a_terrain_collides_as_it_is() -> None:
    bowl = grid(21, lambda x, y: 0.3 * (x * x + y * y))
    assert rests_at(bowl, (0.0, 0.0)) == pytest.approx(0.0, abs=5e-3)


def test_a_room_whose_walls_show_inwards_is_hollow() -> None:
    points, triangles = cuboid((-1.0, -1.0, 0.0), (1.0, 1.0, 2.0))
    assert rests_at(Mesh(points, triangles[:, ::-1].copy()), (0.3, 0.2)) == pytest.approx(0.0, abs=3e-3)
    assert rests_at(Mesh(points, triangles), (0.3, 0.2), drop=2.5) == pytest.approx(2.0, abs=3e-3)


def test_a_flat_mesh_is_solid_below() -> None:
    assert rests_at(grid(2, flat), (0.5, 0.5)) == pytest.approx(0.0, abs=3e-3)
    hull = grid(2, flat)
    assert rests_at(Mesh(hull.points, hull.triangles, "convexHull"), (0.5, 0.5)) == pytest.approx(
        0.0, abs=3e-3
    )
    downward = Mesh(hull.points, hull.triangles[:, ::-1].copy(), "none")
    # Seen from below only: solid above it.
    assert rests_at(downward, (0.5, 0.5)) > 0.05


def test_a_flat_mesh_with_a_hole_lets_things_through() -> None:
    mesh = grid(4, flat)
    centers = mesh.points[mesh.triangles].mean(axis=1)
    frame = Mesh(mesh.points, mesh.triangles[np.abs(centers).max(axis=1) > 1.0 / 3.0])
    assert rests_at(frame, (0.8, 0.0)) == pytest.approx(0.0, abs=3e-3)
    assert rests_at(frame, (0.0, 0.0)) < -1.0


def polygon(*corners: tuple[float, float], size: float = 1.0, **options: Any) -> Mesh:
    """Returns a face in the XY plane as a fan, as the reader makes one of a polygon; it looks up."""
    points = np.column_stack([size * np.array(corners), np.zeros(len(corners))])
    triangles = [(0, index, index + 1) for index in range(1, len(corners) - 1)]
    return Mesh(points, np.array(triangles, dtype=np.int32), **options)


SQUARE = ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))
NOTCHED = ((0.3, 0.5), (-0.5, 0.5), (-0.5, -0.5), (0.5, -0.5), (0.5, 0.3), (0.3, 0.3))
"""A square without a corner; the fan of its first point has a triangle that is turned over."""


def turned_over(mesh: Mesh, *, double_sided: bool) -> Mesh:
    return Mesh(mesh.points, mesh.triangles[:, ::-1].copy(), "none", double_sided=double_sided)


@each_case("size", [0.4, 10.0, 100.0])
def test_a_floor_with_two_sides_holds_from_both(size: float) -> None:
    """The closed form: a ball at rest, its lowest point in the plane, whatever the winding."""
    for mesh in (polygon(*SQUARE, size=size), polygon(*NOTCHED, size=size)):
        for floor in (mesh, turned_over(mesh, double_sided=True)):
            above = rests_at(floor, (-0.1 * size, -0.2 * size), drop=0.07)
            assert above == pytest.approx(0.0, abs=2e-3)
            double = Mesh(floor.points, floor.triangles, "none", double_sided=True)
            assert hangs_at(double, (-0.1 * size, -0.2 * size)) == pytest.approx(0.0, abs=2e-3)


def hangs_at(ceiling: Shape, below: tuple[float, float], radius: float = 0.05) -> float:
    """Returns the height of the highest point of a ball that gravity lifts, once it lies."""
    scene = PhysicsScene(
        gravity=(0.0, 0.0, 9.81),
        bodies=(Body(path="/ball", inertial=UNIT, world_from_body=Pose((*below, -0.07))),),
        colliders=(collider(0, Sphere(radius)), collider(WORLD_BODY, ceiling, path="/ceiling")),
    )
    compiled, model, data = simulated(scene, Reports())
    run(model, data, 1.5)
    return float(body_pose(compiled, data, 0)[2]) + radius


def test_a_floor_with_two_sides_keeps_bodies_on_theirs() -> None:
    scene = PhysicsScene(
        gravity=(0.0, 0.0, 0.0),
        bodies=tuple(
            Body(
                path=f"/ball_{side}", inertial=UNIT, world_from_body=Pose((0.0, 0.3 * side, 0.2 * side)),
                linear_velocity=(0.0, 0.0, -4.0 * side),
            )
            for side in (1, -1)
        ),
        colliders=(
            *(collider(index, Sphere(0.05)) for index in range(2)),
            collider(WORLD_BODY, polygon(*SQUARE, size=10.0, double_sided=True), path="/floor"),
        ),
    )  # fmt: skip
    compiled, model, data = simulated(scene, Reports())
    run(model, data, 1.0)
    assert body_pose(compiled, data, 0)[2] > 0.04
    # The other side is a plate's thickness away.
    assert body_pose(compiled, data, 1)[2] < -0.06


@each_case("size", [10.0, 100.0])
def test_nothing_falls_through_a_large_floor(size: float) -> None:
    hexagon = tuple((0.5 * math.cos(a), 0.5 * math.sin(a)) for a in np.arange(6) * math.pi / 3.0)
    floors = (polygon(*SQUARE, size=size), polygon(*NOTCHED, size=size), polygon(*hexagon, size=size))
    for floor in (*floors, turned_over(floors[0], double_sided=False)):
        for place in ((0.3, 0.2), (-0.2 * size, -0.2 * size)):
            assert rests_at(floor, place, radius=0.01, drop=4.0) == pytest.approx(0.0, abs=5e-3)


def test_a_large_rough_floor_holds_what_falls_fast() -> None:
    coarse = grid(5, lambda x, y: 0.001 * np.sin(3.0 * x + 5.0 * y))
    floor = Mesh(50.0 * coarse.points, coarse.triangles)
    assert rests_at(floor, (3.0, 2.0), radius=0.02, drop=5.0) > -0.1


@each_case(("axis", "angle"), [("X", 0.0), ("X", math.pi / 2.0), ("Y", 1.0)])
def test_a_flat_rectangle_is_a_box_wherever_it_looks(axis: str, angle: float) -> None:
    mesh = polygon((-1.0, -0.5), (0.0, -0.5), (1.0, -0.5), (1.0, 0.5), (-1.0, 0.5))
    wall = collider(WORLD_BODY, mesh, pose=turned(axis, angle))
    made = built(PhysicsScene(colliders=(wall,)))
    geom = made.spec.geom("/collider_-1")
    assert geom.type == mujoco.mjtGeom.mjGEOM_BOX
    assert sorted(geom.size) == pytest.approx([0.5 * 0.05 * math.hypot(2.0, 1.0), 0.5, 1.0])
    _, model, data = simulated(PhysicsScene(colliders=(wall,)))
    normal = np.array(turned(axis, angle).rotation)
    out = rotate(normal, np.array([0.0, 0.0, 1.0]))
    hit = np.zeros(1, dtype=np.int32)
    assert mujoco.mj_ray(model, data, 2.0 * out, -out, None, 1, -1, hit) == pytest.approx(2.0, abs=1e-9)


def test_outlines_that_are_not_convex_are_cut_into_few_parts() -> None:
    """By area: the parts are those of the mesh, and none overlaps another."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        mesh = grid(6, flat)
        kept = mesh.triangles[rng.random(len(mesh.triangles)) < 0.8]
        corners = mesh.points[kept]
        area = float(
            0.5
            * np.linalg.norm(
                np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
            ).sum()
        )
        made = built(PhysicsScene(colliders=(collider(WORLD_BODY, Mesh(mesh.points, kept)),)), Reports())
        model = made.spec.compile()
        assert model.ngeom < len(kept)
        depth = 0.05 * float(np.linalg.norm(np.ptp(corners.reshape(-1, 3), axis=0)))
        volume = sum(_volume(model, number) for number in range(model.ngeom))
        assert volume == pytest.approx(area * depth, rel=1e-5)


def _volume(model: Any, geom: int) -> float:
    if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_BOX:
        return float(8.0 * np.prod(model.geom_size[geom]))
    mesh = model.geom_dataid[geom]
    first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
    hull = scipy_spatial.ConvexHull(model.mesh_vert[first : first + count])
    return float(hull.volume)


def test_an_approximation_decides_what_collides() -> None:
    assert rests_at(bracket("convexHull"), (0.1, 0.0)) == pytest.approx(1.0, abs=3e-3)
    assert height_of(bracket("boundingCube"), (0.9, 0.0)) == pytest.approx(1.0, abs=1e-6)
    radius = float(np.linalg.norm([0.5, 0.2, 0.5]))
    assert height_of(bracket("boundingSphere"), (0.5, 0.0)) == pytest.approx(0.5 + radius, abs=1e-6)


@pytest.mark.process
def test_a_decomposed_mesh_keeps_its_hollow(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("coacd", reason="coacd is not installed: make setup")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert rests_at(bracket("convexDecomposition"), (0.6, 0.0)) == pytest.approx(0.2, abs=0.03)
    kept = sorted(tmp_path.rglob("*.npz"))
    assert len(kept) == 1
    # The second time it comes from the cache: a file that CoACD would never have written says so.
    points, _ = cuboid((-1.0, -1.0, 0.0), (1.0, 1.0, 0.5))
    np.savez(kept[0], points)
    assert rests_at(bracket("convexDecomposition"), (0.6, 0.0)) == pytest.approx(0.5, abs=3e-3)
    kept[0].write_bytes(b"not an archive")
    assert rests_at(bracket("convexDecomposition"), (0.6, 0.0)) == pytest.approx(0.2, abs=0.03)


class Worker:
    """In place of the processes that run CoACD: it cuts the bracket into foot and wall, or fails.

    Attributes:
        timeouts: Time limit of each run, seconds.
        failure: What a run raises.
    """

    CalledProcessError, TimeoutExpired = subprocess.CalledProcessError, subprocess.TimeoutExpired

    def __init__(self) -> None:
        self.timeouts: list[float] = []
        self.failure: Exception | None = None

    def run(self, command: list[str], *, timeout: float, **_: Any) -> None:
        self.timeouts.append(timeout)
        if self.failure is not None:
            raise self.failure
        foot, _ = cuboid((0.0, -0.2, 0.0), (1.0, 0.2, 0.2))
        wall, _ = cuboid((0.0, -0.2, 0.2), (0.2, 0.2, 1.0))
        np.savez(command[-1], foot, wall)


@pytest.fixture
def worker(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Worker:
    pytest.importorskip("coacd", reason="coacd is not installed: make setup")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = Worker()
    monkeypatch.setattr(convex_parts, "subprocess", made)
    return made


def test_parts_are_kept_and_made_again_where_the_file_is_damaged(worker: Worker, tmp_path: Any) -> None:
    for runs, damaged in ((1, False), (1, True), (2, False)):
        assert rests_at(bracket("convexDecomposition"), (0.6, 0.0)) == pytest.approx(0.2, abs=0.03)
        assert len(worker.timeouts) == runs
        (kept,) = tmp_path.rglob("*.npz")
        if damaged:
            kept.write_bytes(b"not an archive")


def test_a_decomposition_that_fails_is_reported(worker: Worker, tmp_path: Any) -> None:
    scene = PhysicsScene(colliders=(collider(WORLD_BODY, bracket("convexDecomposition")),))
    for failure, said in (
        (subprocess.TimeoutExpired("coacd", 0.01), "more than 0.01 s"),
        (subprocess.CalledProcessError(1, "coacd"), "CoACD could not decompose it (CalledProcessError)"),
    ):
        reports = Reports()
        worker.failure = failure
        compiled, _, _ = simulated(scene, reports, decompose_seconds=0.01)
        assert said in reports["mujoco.shape:/collider_-1"]
        assert compiled.geom_ids[0].size == 1
    assert worker.timeouts == [0.01, 0.01]
    assert not list(tmp_path.rglob("*.npz"))


def test_a_mesh_that_moves_collides_as_its_hull_which_planning_has_said() -> None:
    reports = Reports()
    body = Body(path="/body", inertial=UNIT)
    compiled, _, _ = simulated(PhysicsScene(bodies=(body,), colliders=(collider(0, bracket()),)), reports)
    assert list(reports) == []
    assert compiled.geom_ids[0].size == 1
    convex = Mesh(*cuboid((-1.0, -1.0, -1.0), (1.0, 1.0, 1.0)))
    simulated(PhysicsScene(bodies=(body,), colliders=(collider(0, convex),)))


@pytest.mark.parametrize("turn", [0.0, 0.7])
def test_a_plane_that_moves_is_a_box(turn: float) -> None:
    reports = Reports()
    body = Body(path="/body", inertial=UNIT, world_from_body=turned("Z", turn, (0.0, 0.0, 1.0)))
    scene = PhysicsScene(
        bodies=(body,),
        colliders=(collider(0, Plane((0.5, 0.5))), collider(WORLD_BODY, Plane(), path="/floor")),
    )
    compiled, model, data = simulated(scene, reports)
    assert list(reports) == ["mujoco.shape:/collider_0"]
    run(model, data, 2.0)
    assert body_pose(compiled, data, 0)[2] == pytest.approx(0.01, abs=3e-3)


# --- What is seen -------------------------------------------------------------------------------------------------


def test_what_is_seen_and_what_collides_are_told_apart_by_group() -> None:
    scene = PhysicsScene(
        bodies=(Body(path="/body", inertial=UNIT),),
        colliders=(
            collider(0, Box((0.1, 0.1, 0.1)), path="/seen", color=RED),
            collider(0, Box((0.1, 0.1, 0.1)), path="/hidden"),
            collider(WORLD_BODY, bracket(), path="/wall", color=RED),
        ),
        visuals=(
            Visual(path="/paint", body=0, body_from_shape=IDENTITY_POSE, shape=bracket(), color=RED),
            Visual(path="/leaf", body=0, body_from_shape=IDENTITY_POSE, shape=grid(2, flat), color=RED),
            Visual(path="/sheet", body=0, body_from_shape=IDENTITY_POSE, shape=Plane((1.0, 1.0)), color=RED),
        ),
    )
    compiled, model, _ = simulated(scene)
    groups = [model.geom_group[ids].tolist() for ids in compiled.geom_ids]
    assert groups[0] == [COLLIDER_GROUP]
    assert groups[1] == [HIDDEN_GROUP]
    assert set(groups[2]) == {HIDDEN_GROUP}
    assert len(groups[2]) > 4
    copy = model.geom("/wall:seen").id
    for ids in (*compiled.visual_geoms, np.array([copy])):
        assert model.geom_group[ids].tolist() == [VISUAL_GROUP]
        assert model.geom_contype[ids].tolist() == [0]
        assert model.geom_conaffinity[ids].tolist() == [0]
        assert model.geom_rgba[ids[0]].tolist() == list(RED)


def test_alike_meshes_are_stored_once() -> None:
    shapes = [bracket("convexHull") for _ in range(4)]
    scene = PhysicsScene(
        colliders=tuple(
            collider(WORLD_BODY, shape, path=f"/part_{number}", color=RED)
            for number, shape in enumerate(shapes)
        )
    )
    _, model, _ = simulated(scene)
    assert model.nmesh == 1


def test_solver_attributes_reach_the_geom() -> None:
    solver = {
        "margin": 0.002, "condim": 6, "priority": 3, "solmix": 2.0, "solref": (0.01, 0.9),
        "solimp": (0.8, 0.9), "torsional_friction": 0.02, "rolling_friction": 0.003,
    }  # fmt: skip
    made = built(PhysicsScene(colliders=(collider(WORLD_BODY, Sphere(1.0), solver=solver),)))
    geom = made.spec.geom("/collider_-1")
    assert (geom.margin, geom.condim, geom.priority, geom.solmix) == (0.002, 6, 3, 2.0)
    assert geom.solref.tolist() == [0.01, 0.9]
    assert geom.solimp.tolist()[:3] == [0.8, 0.9, 0.001]
    assert geom.friction.tolist() == [0.5, 0.02, 0.003]


def test_solver_attributes_reach_the_scene() -> None:
    solver = {
        "cone": "pyramidal", "integrator": "rk4", "solver": "cg", "jacobian": "sparse", "impratio": 3.0,
        "tolerance": 1e-9, "iterations": 33,
    }  # fmt: skip
    option = built(PhysicsScene(solver=solver, timestep=0.004, gravity=(0.0, 1.0, -2.0))).spec.option
    assert option.cone == mujoco.mjtCone.mjCONE_PYRAMIDAL
    assert option.integrator == mujoco.mjtIntegrator.mjINT_RK4
    assert option.solver == mujoco.mjtSolver.mjSOL_CG
    assert option.jacobian == mujoco.mjtJacobian.mjJAC_SPARSE
    assert (option.impratio, option.tolerance, option.iterations) == (3.0, 1e-9, 33)
    assert option.timestep == 0.004
    assert option.gravity.tolist() == [0.0, 1.0, -2.0]


def test_the_caller_decides_before_the_asset() -> None:
    scene = PhysicsScene(solver={"integrator": "rk4", "iterations": 1, "cone": "nonsense"}, timestep=0.004)
    option = built(scene, timestep=0.001, integrator="euler").spec.option
    assert option.timestep == 0.001
    assert option.integrator == mujoco.mjtIntegrator.mjINT_EULER
    assert option.iterations == 20
    assert option.cone == mujoco.mjtCone.mjCONE_ELLIPTIC


def test_the_medium_and_the_solver() -> None:
    solver = {
        "density": 1000.0, "viscosity": 0.1, "wind": (1.0, 2.0, 3.0), "magnetic": (0.0, 0.0, 1.0),
        "noslip_iterations": 4, "noslip_tolerance": 1e-5, "ls_iterations": 7, "ls_tolerance": 0.1,
        "ccd_iterations": 9, "ccd_tolerance": 1e-4, "sdf_initpoints": 3, "sdf_iterations": 2,
        "o_margin": 0.1, "o_solref": (0.1, 1.0), "o_friction": (2.0, 2.0, 0.1, 0.01, 0.01),
    }  # fmt: skip
    option = built(PhysicsScene(solver=solver | {"disabled_actuator_groups": (1, 3)})).spec.option
    assert {name: np.array(getattr(option, name)).tolist() for name in solver} == {
        name: list(value) if isinstance(value, tuple) else value for name, value in solver.items()
    }
    assert option.disableactuator == 0b1010


FLAGS = [
    flag
    for flag in (
        "actuation", "clampctrl", "constraint", "contact", "damper", "equality", "eulerdamp", "filterparent",
        "frictionloss", "island", "limit", "midphase", "multiccd", "nativeccd", "refsafe", "spring", "warmstart",
    )
    if hasattr(mujoco.mjtDisableBit, f"mjDSBL_{flag.upper()}")
]  # fmt: skip


@each_case("flag", FLAGS)
def test_flags_of_the_scene(flag: str) -> None:
    bit = int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag.upper()}"))
    flags = [
        int(built(PhysicsScene(solver={f"flag_{flag}": on})).spec.option.disableflags) & bit
        for on in (False, True)
    ]
    assert flags == [bit, 0]


def test_contacts_are_overridden_where_asked() -> None:
    option = built(PhysicsScene(solver={"flag_override": True})).spec.option
    assert option.enableflags & mujoco.mjtEnableBit.mjENBL_OVERRIDE


@each_case(
    "name",
    [
        "iterations",
        "ls_iterations",
        "noslip_iterations",
        "ccd_iterations",
        "sdf_initpoints",
        "sdf_iterations",
    ],
)
def test_a_step_ends_however_many_iterations_an_asset_asks_for(name: str) -> None:
    scene = PhysicsScene(solver={name: 2_000_000_000}, mujoco_options=True)
    assert getattr(built(scene).spec.option, name) == 1000


def test_iterations_of_mujocos_own_options_are_exact() -> None:
    scene = PhysicsScene(solver={"iterations": 4}, mujoco_options=True)
    assert built(scene).spec.option.iterations == 4


def test_masses_are_bounded_and_scaled() -> None:
    inertial = Inertial(mass=1.0, diagonal=(0.1, 0.1, 0.1))
    bodies = tuple(Body(path=f"/{name}", inertial=inertial) for name in "ab")
    _, model, _ = simulated(PhysicsScene(bodies=bodies, solver={"bound_mass": 2.0, "bound_inertia": 0.3}))
    assert model.body_mass[1:].tolist() == [2.0, 2.0]
    assert model.body_inertia[1:].min() == 0.3
    _, model, _ = simulated(PhysicsScene(bodies=bodies, solver={"total_mass": 14.0}))
    assert model.body_mass[1:].tolist() == [7.0, 7.0]
    assert model.body_inertia[1].tolist() == pytest.approx([0.7] * 3)


def test_the_hull_has_no_more_vertices_than_asked_for() -> None:
    ball = np.random.default_rng(0).normal(size=(300, 3))
    ball /= np.linalg.norm(ball, axis=1)[:, None]
    mesh = Mesh(ball, np.arange(300, dtype=np.int32).reshape(-1, 3), "convexHull")
    sizes = []
    for solver in ({}, {"max_hull_vertices": 20}):
        _, model, _ = simulated(PhysicsScene(colliders=(collider(WORLD_BODY, mesh, solver=solver),)))
        sizes.append(int(model.mesh_graph[model.mesh_graphadr[0]]))
    assert sizes[0] > 100
    assert sizes[1] <= 20


def test_what_the_engine_refuses_is_one_error_in_one_line() -> None:
    from usd_ros_bridge.errors import BackendError

    made = built(PhysicsScene(bodies=(Body(path="/body", inertial=UNIT),)))
    # MuJoCo does not say which it is.
    made.spec.worldbody.add_body().add_freejoint()
    with pytest.raises(BackendError, match=r"^MuJoCo refuses the asset: ") as caught:
        compile_model(made)
    assert "\n" not in str(caught.value)


def test_a_static_mesh_of_too_many_triangles_is_decomposed(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convex_parts, "MOST_PRISMS", 10)
    reports = Reports()
    scene = PhysicsScene(colliders=(collider(WORLD_BODY, bracket()),))
    compiled, _, _ = simulated(scene, reports)
    assert "more than the 10" in reports["mujoco.shape:/collider_-1"]
    assert compiled.geom_ids[0].size == 2
    assert len(worker.timeouts) == 1
