"""Wheels on floors: one contact with the torsional friction of a line, held to Coulomb's friction along the line."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from case_tables import each_case

pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")

from open_backend import Opened
from wheeled_rover import Driven, rover

from builders.stage_text import at, plan_text, prim
from usd_ros_bridge.backends.mujoco.spec_builder import AUXILIARY_GROUP
from usd_ros_bridge.backends.mujoco.tyres import MOST_FLOORS

SPEED = 1.5
"""rad/s: of a wheel that turns the rover by 1 rad/s."""
GRIPS = prim(
    "Material", "rubber", "PhysicsMaterialAPI PhysxMaterialAPI", "float physics:dynamicFriction = 1",
    'uniform token physxMaterial:frictionCombineMode = "max"',
)  # fmt: skip
BOUND = "rel material:binding:physics = </World/rubber>"


def scrub(stage: str, speed: float = SPEED, **options: str) -> float:
    """Returns by which share a turn on the spot misses that of the wheels, %."""
    driven = Driven(stage, **options)
    driven.drive(-speed, speed, 0.5)
    driven.poses.clear()
    driven.wheels.clear()
    driven.drive(-speed, speed, 3.14)
    left, right = driven.wheels[-1] - driven.wheels[0]
    # Wheels of 0.1 m radius, 0.3 m apart.
    return float(100.0 * (driven.turned / ((right - left) * 0.1 / 0.3) - 1.0))


def coulomb(width: float) -> float:
    """Returns the same of Coulomb's friction along two lines of a width, %, integrated: its forces balance.

    The middle of each wheel slips by `slip` for each radian. Along the line, the direction of friction is that of the
    slip: the force is its sum, the moment its first moment.
    """
    places = (np.arange(20_000) + 0.5) / 20_000 * width - 0.5 * width
    low, high = 0.0, 0.5 * width
    for _ in range(60):
        slip = 0.5 * (low + high)
        direction = np.sign(slip - places)
        force, moment = direction.mean(), -(direction * places).mean()
        # Two wheels: their forces turn the robot against both moments.
        low, high = (slip, high) if 0.3 * force < 2.0 * moment else (low, slip)
    return -100.0 * slip / 0.15


@each_case(
    ("floor", "width"),
    [("Plane", 0.04), ("Cube", 0.04), ("Plane", 0.08), ("Cube", 0.08), ("Plane", 0.01)],
)
def test_wide_wheels_scrub_by_coulomb_s_line(floor: str, width: float) -> None:
    """All floors agree."""
    assert scrub(rover(damping=2.0, floor=floor, width=width)) == pytest.approx(coulomb(width), abs=0.15)


@each_case(
    ("mass", "speed", "grips"),
    [(10.0, 0.4, False), (60.0, 1.5, False), (60.0, 3.0, False), (10.0, 0.4, True), (60.0, 1.5, True)],
)
def test_neither_mass_nor_speed_nor_friction_matters(mass: float, speed: float, grips: bool) -> None:
    material = {"wheel": (BOUND,), "schemas": "MaterialBindingAPI", "content": GRIPS} if grips else {}
    found = scrub(rover(damping=2.0, mass=mass, **material), speed)
    assert found == pytest.approx(coulomb(0.04), abs=0.15)


def tyres(stage: str, **options: str) -> set[tuple[str, str]]:
    """Returns the contacts of tyres: the last part of the wheel's path, and that of the floor's."""
    model = Opened(plan_text(stage), **options).backend.simulation.model
    names = [mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_GEOM, geom) for geom in range(model.ngeom)]
    pairs = ([names[geom] for geom in pair] for pair in zip(model.pair_geom1, model.pair_geom2, strict=True))
    return {
        (one.removesuffix(":tyre").rpartition("/")[2], other.rpartition("/")[2])
        for pair in pairs
        for one, other in (sorted(pair, key=lambda name: not name.endswith(":tyre")),)
        if one.endswith(":tyre")
    }


def box(name: str, size: tuple[float, float, float], x: float = 9.0) -> str:
    """Returns a static box with a size along each axis, m."""
    place = f"double3 xformOp:translate = ({x}, 0, 0)\nfloat3 xformOp:scale = {size}"
    order = 'uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:scale"]'
    return prim("Cube", name, "PhysicsCollisionAPI", "double size = 1", place, order)


BOTH = {("left", "floor"), ("right", "floor")}
MUJOCO = "MjcCollisionAPI"


@each_case(
    ("changes", "expected"),
    [
        ({}, BOTH),
        ({"floor": "Cube"}, BOTH),
        # As wide as high, and wider: a roller.
        ({"width": 0.2}, BOTH),
        ({"width": 0.21}, set()),
        # What MuJoCo's schema says of contacts is meant so.
        ({"schemas": MUJOCO}, set()),
        ({"wheel": ("int mjc:condim = 3",)}, set()),
        # A curb, and a block that is large enough to drive on.
        ({"content": prim("Cube", "curb", "PhysicsCollisionAPI", "double size = 0.9", at(5, 0, 0))}, BOTH),
        (
            {"content": prim("Cube", "block", "PhysicsCollisionAPI", "double size = 2", at(5, 0, 0))},
            BOTH | {("left", "block"), ("right", "block")},
        ),
        ({"content": box("wall", (6, 0.1, 3))}, BOTH),
        ({"content": box("slab", (6, 6, 0.1))}, BOTH | {("left", "slab"), ("right", "slab")}),
    ],
)
def test_which_wheels_and_floors_have_one(changes: dict[str, str], expected: set[tuple[str, str]]) -> None:
    assert tyres(rover(damping=2.0, **changes)) == expected


def test_only_the_largest_floors_have_one() -> None:
    slabs = "".join(box(f"slab_{number}", (9 - 0.1 * number, 9, 0.1), 20.0 * number) for number in range(12))
    found = {floor for _, floor in tyres(rover(damping=2.0, content=slabs))}
    assert found == {"floor", *(f"slab_{number}" for number in range(MOST_FLOORS - 1))}


def test_scenes_with_too_many_kinds_of_colliders_keep_the_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("usd_ros_bridge.backends.mujoco.tyres.MOST_CLASSES", 2)
    assert tyres(rover(damping=2.0)) == set()


def test_a_filter_is_one_for_the_tyre() -> None:
    apart = "rel physics:filteredPairs = </World/floor>"
    stage = rover(damping=2.0, wheel=(apart,), schemas="PhysicsFilteredPairsAPI")
    assert tyres(stage) == set()
    opened = Opened(plan_text(stage))
    opened.step(100)
    assert opened.backend.contacts("/World/bot/left").surfaces == ()


def test_a_cylinder_that_no_hinge_turns_keeps_its_edges() -> None:
    stage = rover(damping=2.0).replace('uniform token physics:axis = "Y"', 'uniform token physics:axis = "X"')
    assert tyres(stage) == set()


def test_one_contact_is_all_that_a_wheel_has_with_the_floor() -> None:
    opened = Opened(plan_text(rover(damping=2.0)))
    opened.step(500)
    simulation = opened.backend.simulation
    model, data = simulation.model, simulation.data
    touching = [
        {mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_GEOM, int(geom)) for geom in contact.geom}
        for contact in data.contact
    ]
    wheels = [names for names in touching if any("left" in name or "right" in name for name in names)]
    assert sorted(map(sorted, wheels)) == [
        ["/World/bot/left:tyre", "/World/floor"],
        ["/World/bot/right:tyre", "/World/floor"],
    ]
    # It is the wheel's contact, and rays meet the wheel alone.
    assert opened.backend.contacts("/World/bot/left").surfaces == ("/World/floor",)
    tyre = model.geom("/World/bot/left:tyre")
    assert tyre.group[0] == AUXILIARY_GROUP


@each_case(("option", "expected"), [("on", BOTH), ("off", set())])
def test_with_one_contact_for_each_pair_wheels_are_as_before(
    option: str, expected: set[tuple[str, str]]
) -> None:
    assert tyres(rover(damping=2.0), multiccd=option) == expected


def test_a_small_wheel_rolls_by_its_radius() -> None:
    """Depth would take 1.1 % from a radius of 16 mm."""
    stage = rover(damping=0.1).replace("double radius = 0.1\n", "double radius = 0.016\n")
    stage = stage.replace(at(0, 0.15, 0.1), at(0, 0.15, 0.016)).replace(
        at(0, -0.15, 0.1), at(0, -0.15, 0.016)
    )
    stage = stage.replace("double height = 0.04", "double height = 0.008").replace(
        ", 0.15, 0)", ", 0.15, -0.084)"
    )
    stage = stage.replace(", -0.15, 0)", ", -0.15, -0.084)")
    driven = Driven(stage)
    driven.drive(5.0, 5.0, 1.0)
    state = driven.drive(5.0, 5.0, 1.0)
    assert state.body_twist is not None
    assert state.body_twist[driven.base, 0] == pytest.approx(5.0 * 0.016, rel=0.003)
