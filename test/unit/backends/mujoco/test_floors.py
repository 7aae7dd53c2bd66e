"""Stages with floors of all kinds, and bodies whose colliders are below them: where they come to rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from open_backend import Opened
from spec_scenes import Reports, body_pose, run, simulated

from builders.stage_text import at, body, plan_text, prim, scene_of, world
from case_tables import each_case

COLLIDES = "PhysicsCollisionAPI"
FLOOR = """
uniform token subdivisionScheme = "none"
int[] faceVertexCounts = [4]
point3f[] points = [(-1, 1, 0), (1, 1, 0), (1, -1, 0), (-1, -1, 0)]
"""
UP, DOWN = "int[] faceVertexIndices = [3, 2, 1, 0]", "int[] faceVertexIndices = [0, 1, 2, 3]"
DOUBLE = "uniform bool doubleSided = 1"
BOX = body("box", "double size = 0.2", at(0.5, 0.3, 0.11), kind="Cube", schemas=COLLIDES)


def height_at_rest(text: str, axis: int = 2, **options: Any) -> float:
    compiled, model, data = simulated(scene_of(text, **options), Reports())
    run(model, data, 2.0)
    assert np.abs(data.qacc).max() < 1e-3
    return float(body_pose(compiled, data, 0)[axis])


def floor(size: float, *content: str, approximation: str = "none") -> str:
    scale = f"float3 xformOp:scale = ({size}, {size}, {size})"
    order = 'uniform token[] xformOpOrder = ["xformOp:scale"]'
    approximated = f'uniform token physics:approximation = "{approximation}"'
    return prim(
        "Mesh", "Ground", f"{COLLIDES} PhysicsMeshCollisionAPI", approximated, FLOOR, scale, order, *content
    )


@each_case(
    ("size", "content", "approximation"),
    [
        *((size, (DOWN, DOUBLE), "none") for size in (5.0, 50.0)),
        *((size, (UP,), "none") for size in (5.0, 50.0)),
        (50.0, (DOWN,), "none"),
        (5.0, (DOWN,), "none"),
        (50.0, (DOWN,), "convexHull"),
    ],
)
def test_a_box_rests_on_a_quad(size: float, content: tuple[str, ...], approximation: str) -> None:
    """MuJoCo's own contact between a box and a plane: 0.1 mm deep."""
    text = world(floor(size, *content, approximation=approximation), BOX)
    assert height_at_rest(text) == pytest.approx(0.0999, abs=1e-4)


def test_a_floor_of_a_stage_in_centimetres_with_y_up() -> None:
    ground = prim(
        "Mesh", "Ground", COLLIDES, "int[] faceVertexCounts = [4]", "int[] faceVertexIndices = [0, 1, 2, 3]", DOUBLE,
        "point3f[] points = [(-1, 0, -1), (1, 0, -1), (1, 0, 1), (-1, 0, 1)]",
        "float3 xformOp:scale = (900, 900, 900)", 'uniform token[] xformOpOrder = ["xformOp:scale"]',
    )  # fmt: skip
    box = body("box", "double size = 20", at(50.0, 11.0, 30.0), kind="Cube", schemas=COLLIDES)
    # The world of ROS has Z up.
    assert height_at_rest(world(ground, box), meters=0.01, up="Y") == pytest.approx(0.0999, abs=1e-4)


@each_case("side", [1.0, -1.0])
def test_a_wall_with_two_sides_holds_from_both(side: float) -> None:
    """Gravity along X presses the box against the wall."""
    wall = prim(
        "Mesh", "wall", COLLIDES, DOUBLE, FLOOR, DOWN, "float3 xformOp:rotateXYZ = (0, 90, 0)",
        "float3 xformOp:scale = (8, 8, 8)",
        'uniform token[] xformOpOrder = ["xformOp:rotateXYZ", "xformOp:scale"]',
    )  # fmt: skip
    scene = prim("PhysicsScene", "scene", "", f"vector3f physics:gravityDirection = ({-side}, 0, 0)")
    box = body("box", "double size = 0.2", at(side * 0.11, 0.3, 0.2), kind="Cube", schemas=COLLIDES)
    assert height_at_rest(world(scene, wall, box), axis=0) == pytest.approx(side * 0.0999, abs=1e-4)


def test_a_body_whose_colliders_are_below_an_instance_rests_on_a_plane() -> None:
    """As Isaac Sim's URDF importer writes it, with the prototype in an invisible scope."""
    text = """
def Xform "box" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]) {
    float physics:mass = 1
    double3 xformOp:translate = (0, 0, 0.3)
    uniform token[] xformOpOrder = ["xformOp:translate"]
    def Xform "collisions" (
        instanceable = true
        prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMeshCollisionAPI", "PhysxMeshMergeCollisionAPI"]
        prepend references = </colliders/box>
    ) {
        uniform token physics:approximation = "convexHull"
    }
}
def Scope "colliders" {
    token visibility = "invisible"
    def Xform "box" {
        def Xform "mesh_0" {
            def Cube "cube" {
                double size = 0.2
                uniform token purpose = "guide"
            }
        }
    }
}
def Plane "ground" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {}
"""
    assert height_at_rest(text) == pytest.approx(0.0999, abs=1e-4)


@each_case("floor", ["Mesh", "Cube", "Plane"])
def test_a_box_rests_on_its_corners_and_is_still(floor: str) -> None:
    """The numbers are MuJoCo's own for four contacts; with one contact it sinks by 12 mm and shakes by 7 m/s2."""
    grounds = {
        "Mesh": prim(
            "Mesh",
            "floor",
            "PhysicsCollisionAPI",
            "int[] faceVertexCounts = [4]",
            "int[] faceVertexIndices = [0, 1, 2, 3]",
            "point3f[] points = [(-9, -9, 0), (9, -9, 0), (9, 9, 0), (-9, 9, 0)]",
        ),
        "Cube": prim("Cube", "floor", "PhysicsCollisionAPI", "double size = 20", at(0, 0, -10)),
        "Plane": prim("Plane", "floor", "PhysicsCollisionAPI", 'uniform token axis = "Z"'),
    }
    size = 'uniform token[] xformOpOrder = ["xformOp:scale"]\nfloat3 xformOp:scale = (0.5, 0.4, 0.2)'
    cube = prim("Cube", "geo", "PhysicsCollisionAPI", "double size = 1", size)
    box = body("box", "float physics:mass = 12", at(0.3, 0.22, 0.1), cube)
    opened = Opened(plan_text(world(prim("PhysicsScene", "scene"), grounds[floor], box)))
    opened.step(1500)
    simulation = opened.backend.simulation
    state = opened.backend.entity_state("/World/box")
    assert simulation.data.ncon == 4
    assert state.pose[2] == pytest.approx(0.0999, abs=2e-4)
    assert np.abs(state.acceleration).max() < 1e-6
