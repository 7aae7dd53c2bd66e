"""The example sweep, and braking distances. Oracle: v^2 / (2 mu g); the slope that a body slides down, tan(a) = mu."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from usd_ros_bridge.sweep.run_specs import RunSpec, plan_runs
from usd_ros_bridge.sweep.sweep_description import (
    Randomization,
    RunMetric,
    Signal,
    StopCondition,
    Sweep,
)
from usd_ros_bridge.sweep.sweep_file import load_sweep
from usd_ros_bridge.sweep.sweep_run import RunWorker

pytest.importorskip("mujoco")
pytest.importorskip("pxr")
pytest.importorskip("rclpy")

pytestmark = pytest.mark.app

EXAMPLE = Path(__file__).parents[3] / "examples/sweep/braking.yaml"
BOX = "/World/box"
SLIDE = """#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 1
    upAxis = "Z"
)
def Xform "World"
{
    def PhysicsScene "scene"
    {
        vector3f physics:gravityDirection = (0, 0, -1)
    }
    def Material "rough" (prepend apiSchemas = ["PhysicsMaterialAPI"])
    {
        float physics:dynamicFriction = 0.9
        float physics:staticFriction = 0.9
    }
    def Plane "ground" (prepend apiSchemas = ["PhysicsCollisionAPI", "MaterialBindingAPI"])
    {
        rel material:binding:physics = </World/rough>
    }
    def Cube "box" (
        prepend apiSchemas = [
            "PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "PhysicsMassAPI", "MaterialBindingAPI"
        ]
    )
    {
        double size = 0.1
        float physics:mass = 2
        vector3f physics:velocity = (0, 0, 0)
        rel material:binding:physics = </World/rough>
        double3 xformOp:translate = (0, 0, 0.05)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }
}
"""


def slide(folder: Path, **fields: object) -> Sweep:
    """Return a sweep of a box on a plane; both have the friction of the run."""
    (folder / "slide.usda").write_text(SLIDE, encoding="utf-8")
    made = Sweep(
        name="slide",
        asset="slide.usda",
        duration=4.0,
        backend="mujoco",
        directory=str(folder),
        randomize=(
            Randomization(select=BOX, attribute="friction", value="${mu}"),
            Randomization(select="/World/ground", attribute="friction", value="${mu}"),
            Randomization(select=BOX, attribute="mass", operation="scale", value="${load}"),
        ),
        stop={"rest": StopCondition(signal=Signal(kind="speed", body=BOX), below=0.01, hold=0.05, after=0.1)},
        metrics={
            "distance": RunMetric(signal=Signal(kind="displacement", body=BOX)),
            "speed": RunMetric(signal=Signal(kind="speed", body=BOX)),
        },
    )
    return replace(made, **fields)  # type: ignore[arg-type]


def test_a_box_slides_as_far_as_coulomb_says_whatever_its_mass(tmp_path: Path) -> None:
    start = Randomization(select=BOX, attribute="physics:velocity", value=("${v}", 0, 0))
    sweep = slide(tmp_path, parameters={"mu": (0.1, 0.25, 0.5), "load": (1.0, 10.0), "v": (1.0, 2.0)})
    sweep = replace(sweep, randomize=(*sweep.randomize, start))
    worker = RunWorker(sweep)
    for run in plan_runs(sweep):
        outcome = worker.run(run)
        assert outcome.outcome == "stopped", outcome.reason
        mu, v = float(run.parameters["mu"]), float(run.parameters["v"])
        assert outcome.metrics["distance"] == pytest.approx(v * v / (2.0 * mu * 9.81), rel=0.03), (
            run.parameters
        )
    worker.close()


def test_a_box_slides_down_a_slope_that_is_steeper_than_its_friction(tmp_path: Path) -> None:
    mu = 0.4
    worker = RunWorker(
        slide(
            tmp_path,
            stop={},
            randomize=(
                Randomization(select="/World/**", attribute="friction", value=mu),
                Randomization(
                    select="/World/scene", attribute="physics:gravityDirection", value=("${x}", 0, "${z}")
                ),
            ),
        )
    )
    for excess in (-0.03, 0.03):
        angle = math.atan(mu) + excess
        parameters = {"x": math.sin(angle), "z": -math.cos(angle)}
        outcome = worker.run(RunSpec(index=0, id="run", parameters=parameters, seed=0))
        assert outcome.outcome == "completed", outcome.reason
        down = 9.81 * (math.sin(angle) - mu * math.cos(angle))
        expected = max(0.5 * down * 16.0, 0.0)
        assert outcome.metrics["distance"] == pytest.approx(expected, rel=0.05, abs=0.02)
    worker.close()


def test_the_example_brakes_by_friction_and_its_motors_are_the_limit_of_heavy_rovers() -> None:
    pytest.importorskip("jsonschema")
    sweep = load_sweep(EXAMPLE)
    runs = plan_runs(sweep)
    assert len(runs) == 200
    distance = {}
    worker = RunWorker(sweep)
    for run in runs:
        friction, payload = (round(float(run.parameters[name]), 3) for name in ("friction", "payload"))
        if run.index % 2 == 0 and friction in (0.1, 0.2, 0.5) and payload in (0.0, 27.0):
            outcome = worker.run(run)
            assert (outcome.outcome, outcome.reason) == ("stopped", "the rover stands")
            distance[friction, payload] = outcome.metrics["stopping_distance"]
            assert outcome.setup_time < 60.0
    worker.close()
    # Two thirds of the weight are on the tyres, the rest on the caster, which has half of their friction.
    for friction, payload in ((0.1, 0.0), (0.1, 27.0), (0.2, 0.0)):
        assert distance[friction, payload] == pytest.approx(0.98**2 / (2 * 0.75 * friction * 9.81), rel=0.2)
    # The motors give 120 N at most.
    assert distance[0.5, 27.0] > 0.98**2 / (2 * 120.0 / 37.9)
    assert distance[0.5, 27.0] > 1.3 * distance[0.5, 0.0]
