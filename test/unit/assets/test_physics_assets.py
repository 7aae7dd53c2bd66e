"""The physics of small assets against their golden scenes in test/golden/physics.

`.venv/bin/python -m pytest test/unit/assets --update` rewrites the golden files; read the difference before
committing it.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from golden_texts import text_without_folder
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.export.plan_json import plan_to_json
from usd_ros_bridge.model.plan import BridgePlan

TEST = Path(__file__).parents[2]
ASSETS = TEST / "assets"
GOLDEN = TEST / "golden" / "physics"
NAMES = sorted(path.stem for path in ASSETS.glob("*physics_*.usda"))
EXAMPLES = {"arm": "arm/arm.usda", "rover_world": "rover/world.usda"}


def asset(name: str) -> Path:
    return TEST.parent / "examples" / EXAMPLES[name] if name in EXAMPLES else ASSETS / f"{name}.usda"


def plan_of(name: str) -> BridgePlan:
    return load_plan(asset(name), physics=True)


def rounded(value: Any) -> Any:
    """Returns JSON data with numbers rounded to six digits, so that goldens do not depend on the CPU."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if abs(value) > 1e-9 else 0.0
    if isinstance(value, list):
        return [rounded(item) for item in value]
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return value


def scene_of(name: str) -> dict[str, Any]:
    plan = plan_to_json(plan_of(name))
    found = {"physics": plan["physics"], "diagnostics": plan["diagnostics"]}
    folder = TEST.parent if name in EXAMPLES else TEST
    return json.loads(text_without_folder(rounded(found), folder))


@pytest.mark.parametrize("name", [*NAMES, *EXAMPLES])
def test_scene_matches_golden(name: str, request: pytest.FixtureRequest) -> None:
    scene = scene_of(name)
    path = GOLDEN / f"{name}.json"
    if request.config.getoption("--update", default=False):
        path.write_text(json.dumps(scene, indent=1) + "\n", encoding="utf-8")
    assert scene == json.loads(path.read_text(encoding="utf-8"))


def test_every_golden_has_its_asset() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.json")) == sorted([*NAMES, *EXAMPLES])


def test_examples_have_nothing_to_find() -> None:
    for name in EXAMPLES:
        # Cameras do not show the lamps of the rover.
        assert [each for each in plan_of(name).diagnostics if each.code != "1.4.camera"] == []


def test_every_fault_is_reported_once_and_the_rest_falls() -> None:
    plan = plan_of("physics_bad_input")
    assert plan.physics is not None
    told = Counter((each.path.rpartition("/")[2], each.code) for each in plan.diagnostics)
    assert told == {
        ("negative_mass", "1.3.mass"): 1,
        ("zero_mass", "1.3.mass"): 1,
        ("impossible_inertia", "1.3.inertia"): 1,
        ("no_triangles", "1.3.mesh"): 1,
        ("nan_points", "1.3.mesh"): 1,
        ("mass_without_body", "1.3.mass.place"): 1,
        ("unknown_shape", "1.3.collider"): 1,
        ("unknown_approximation", "1.3.mesh.approximation"): 1,
        ("driven_fixed", "1.3.drive"): 1,
        ("driven_fixed", "1.3.joint.break"): 1,
        ("crossed_limits", "1.3.limits"): 1,
        ("World", "1.3.mass"): 1,
        ("World", "2.1.implicit"): 1,
        ("ball", "1.3.material.default"): 1,
    }
    assert [body.path for body in plan.physics.bodies if not body.inertial.mass > 0.0] == []
    assert {collider.path.rpartition("/")[2] for collider in plan.physics.colliders} == {
        "ball", "negative_mass", "zero_mass", "impossible_inertia", "mass_without_body", "unknown_approximation",
    }  # fmt: skip
