"""Whatever a stage authors about physics, planning gives a scene that engines can take."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_faulty_records import MATRIX, NUMBERS, PATHS, VALUES, stages

from effort import examples
from usd_ros_bridge.export.plan_json import physics_to_json, plan_to_json
from usd_ros_bridge.model import physics_records as p
from usd_ros_bridge.model.physics import Mesh, PhysicsScene
from usd_ros_bridge.model.records import attribute_fields
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.planning.make_plan import make_plan

EXAMPLES = examples(75)
NUMBER = {**VALUES, "float3": VALUES["vector3f"]}
SOLVER = st.dictionaries(
    st.sampled_from(
        ["newton:timeStepsPerSecond", "newton:contactMargin", "mjc:solref", "mjc:priority", "mjc:condim",
         "newton:selfCollisionEnabled", "physxRigidBody:disableGravity", "mjc:gravcomp", "mjc:option:cone"]
    ),
    st.one_of(NUMBERS, st.booleans(), st.text(max_size=3), st.lists(NUMBERS, max_size=3).map(tuple)),
    max_size=4,
)  # fmt: skip
TYPES = st.sampled_from(["Cube", "Sphere", "Cylinder", "Capsule", "Cone", "Plane", "Mesh", "Mesh", "Xform"])


def record(record_type: type[Any], path: st.SearchStrategy[str], **fixed: st.SearchStrategy[Any]) -> Any:
    values = {name: NUMBER[spec.type_name] for name, spec in attribute_fields(record_type)}
    return st.builds(record_type, path=path, **{**values, **fixed})


ANYWHERE = st.sampled_from(PATHS)


def by_path(record_type: type[Any], **fixed: st.SearchStrategy[Any]) -> Any:
    return st.lists(record(record_type, ANYWHERE, **fixed), max_size=4).map(
        lambda each: {r.path: r for r in each}
    )


@st.composite
def geometries(draw: st.DrawFn) -> p.GeometryRecord:
    name = draw(TYPES)
    points = np.array(draw(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=6))).reshape(-1, 3)
    corners = st.integers(0, max(len(points) - 1, 0))
    triangles = draw(st.lists(st.tuples(corners, corners, corners), max_size=8)) if len(points) else []
    size = st.one_of(NUMBERS, st.just(0.5))
    sizes = ("size", "radius", "height", "width", "length")
    return p.GeometryRecord(
        path=f"{draw(ANYWHERE)}/{name}",
        type_name=name,
        world_from_prim=draw(MATRIX),
        values={each: draw(size) for each in sizes} | {"axis": draw(st.sampled_from(["X", "Y", "Z", "W"]))},
        points=points if name == "Mesh" else None,
        triangles=np.array(triangles, dtype=np.int32).reshape(-1, 3) if name == "Mesh" else None,
        collides=draw(st.booleans()),
        collision_enabled=draw(st.booleans()),
        approximation=draw(
            st.sampled_from(["", "none", "convexHull", "boundingSphere", "boundingCube", "sdf"])
        ),
        material=draw(ANYWHERE),
        group_paths=tuple(draw(st.lists(ANYWHERE, max_size=2, unique=True))),
        solver_attributes=draw(SOLVER),
    )


RULE = st.sampled_from(["weightless", "unit_mass", "", 3.0, ("weightless",)])


@st.composite
def physics(draw: st.DrawFn) -> p.PhysicsRecords:
    return p.PhysicsRecords(
        scenes=tuple(
            draw(st.lists(record(p.PhysicsSceneRecord, ANYWHERE, solver_attributes=SOLVER), max_size=2))
        ),
        masses=draw(by_path(p.MassRecord)),
        materials=draw(by_path(p.MaterialRecord, solver_attributes=SOLVER)),
        geometries=tuple(draw(st.lists(geometries(), max_size=4, unique_by=lambda each: each.path))),
        groups=tuple(draw(by_path(p.CollisionGroupRecord)).values()),
        filtered_pairs=tuple(draw(by_path(p.FilteredPairsRecord)).values()),
        joint_breaks=draw(st.dictionaries(ANYWHERE, st.tuples(NUMBERS, NUMBERS), max_size=2)),
        body_solver_attributes=draw(st.dictionaries(ANYWHERE, SOLVER, max_size=3)),
        massless_bodies=draw(st.dictionaries(ANYWHERE, RULE, max_size=2)),
    )


def numbers_in(value: Any) -> Any:
    if isinstance(value, dict):
        for each in value.values():
            yield from numbers_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from numbers_in(each)
    elif isinstance(value, float):
        yield value


def check_promises(scene: PhysicsScene, *, weightless: bool) -> None:
    for number, body in enumerate(scene.bodies):
        assert -1 <= body.parent < number
        inertial = body.inertial
        if inertial.mass > 0.0:
            low, middle, high = sorted(inertial.diagonal)
            assert low >= 0.0 < middle
            assert low + middle >= high
        else:
            assert body.kinematic or weightless
        assert abs(np.linalg.norm(inertial.principal) - 1.0) < 1e-6
        assert np.isfinite((*inertial.center, *body.linear_velocity, *body.angular_velocity)).all()
        for joint in body.joints:
            assert body.path in (
                scene.bodies[i].path for i in (scene.joints[joint].body0, scene.joints[joint].body1) if i >= 0
            )
            assert not scene.joints[joint].closes_loop
    for joint in scene.joints:
        assert joint.body0 != joint.body1
        for dof in joint.dofs:
            assert dof.lower <= dof.upper
            assert min(dof.armature, dof.friction, dof.stiffness, dof.damping) >= 0.0
            if dof.drive is not None:
                assert dof.drive.max_force >= 0.0
    for shape in (each.shape for each in (*scene.colliders, *scene.visuals)):
        if isinstance(shape, Mesh):
            assert np.isfinite(shape.points).all()
            assert len(shape.triangles)
            assert shape.triangles.max() < len(shape.points)
    for pair, size in zip(
        (*scene.apart_bodies, *scene.apart_colliders, *scene.apart_groups),
        (len(scene.bodies),) * len(scene.apart_bodies)
        + (len(scene.colliders),) * len(scene.apart_colliders)
        + (len(scene.groups),) * len(scene.apart_groups),
        strict=True,
    ):
        assert 0 <= pair[0] <= pair[1] < size
    assert all(math.isfinite(value) for value in numbers_in(physics_to_json(scene)))


@pytest.mark.random
@pytest.mark.timeout(max(120, EXAMPLES))
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(stages(), physics())
def test_garbage_never_raises_and_the_scene_keeps_its_promises(
    records: StageRecords, authored: p.PhysicsRecords
) -> None:
    with np.errstate(all="ignore"):
        plan = make_plan(replace(records, physics=authored), PlanOptions())
    check_promises(plan.physics, weightless="weightless" in authored.massless_bodies.values())
    for diagnostic in plan.diagnostics:
        assert diagnostic.message.isprintable()
    json.dumps(plan_to_json(plan), allow_nan=False)
