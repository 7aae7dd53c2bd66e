"""Costly but finite assets: reading, planning and showing them costs in proportion to their size.

The suite counts calls, which no other work of the machine changes. COSTLY_ASSETS=1 takes 20,000 topics, 10,000
joints and 20,000 attributes instead, and allows 5 s of CPU for each step.
"""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.cli.common import engine_settings
from usd_ros_bridge.cli.views import MOST_ROWS, TerminalConsole, print_plan
from usd_ros_bridge.errors import BackendError
from usd_ros_bridge.export.plan_json import plan_summary_text, plan_to_json
from usd_ros_bridge.export.urdf import UrdfExporter
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.usd.read.properties import PrimProperties

WHOLE = bool(os.environ.get("COSTLY_ASSETS"))
MOST_S = 5.0
GROWTH = 2.2
"""Limit of the calls for twice the size: in proportion they are 2 times as many, in a quadratic algorithm 4."""
HEADER = """#usda 1.0
(
    defaultPrim = "robot"
    metersPerUnit = 1
    kilogramsPerUnit = 1
    timeCodesPerSecond = 1
    upAxis = "Z"
)
def Xform "robot" (prepend apiSchemas = ["RosContextAPI"]) {
"""
TOPIC = """def Xform "t{0}" (prepend apiSchemas = ["RosTopicAPI"]) {{
    token ros:topic:role = "publisher"
    string ros:topic:name = "t{0}"
    string ros:topic:type = "std_msgs/msg/String"
    double ros:topic:publish_rate = 1
}}
"""
BODY = """def Xform "b{0}" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]) {{
    float physics:mass = 1
    double3 xformOp:translate = ({0}, 0, 0)
    uniform token[] xformOpOrder = ["xformOp:translate"]
    def Sphere "ball" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {{
        double radius = 0.1
    }}
}}
"""
JOINT = """def PhysicsRevoluteJoint "j{0}" {{
    rel physics:body0 = </robot/b{1}>
    rel physics:body1 = </robot/b{2}>
    uniform token physics:axis = "Z"
    point3f physics:localPos0 = ({3}, 0, 0)
}}
"""


def topics(size: int) -> str:
    return "".join(TOPIC.format(number) for number in range(size))


def chain(size: int) -> str:
    joints = "".join(JOINT.format(number, number, number + 1, 1) for number in range(size))
    return "".join(BODY.format(number) for number in range(size + 1)) + joints


def star(size: int) -> str:
    joints = "".join(JOINT.format(number, 0, number + 1, number + 1) for number in range(size))
    return "".join(BODY.format(number) for number in range(size + 1)) + joints


def parallel(size: int) -> str:
    joints = "".join(JOINT.format(number, 0, 1, number) for number in range(size))
    return BODY.format(0) + BODY.format(1) + joints


def attributes(size: int) -> str:
    lines = "".join(
        f"double physxJoint:a{number} = {number}\ndouble own:a{number} = 1\n" for number in range(size // 2)
    )
    joint = JOINT.format(0, 0, 1, 1).rstrip().removesuffix("}") + lines + "}\n"
    return BODY.format(0) + BODY.format(1) + joint


ASSETS: dict[str, tuple[Callable[[int], str], int, int]] = {
    "topics": (topics, 600, 20_000), "chain": (chain, 600, 10_000), "star": (star, 600, 10_000),
    "parallel": (parallel, 600, 10_000), "attributes": (attributes, 2000, 20_000),
}  # fmt: skip
"""Text of the asset, size in the suite, whole size."""


Measure = Callable[[Callable[[], Any]], float]


def seconds_of_cpu(step: Callable[[], Any]) -> float:
    begin = time.process_time()
    step()
    return time.process_time() - begin


def costs(asset: Path, measure: Measure) -> dict[str, float]:
    """Return the cost of each step that an asset is taken through, in the unit of `measure`."""
    plans: list[BridgePlan] = []
    found = {"load": measure(lambda: plans.append(load_plan(str(asset), physics=True)))}
    plan = plans[0]
    steps: dict[str, Callable[[], Any]] = {
        "inspect": lambda: print_plan(plan, TerminalConsole(file=io.StringIO(), width=200)),
        "json": lambda: json.dumps(plan_to_json(plan), allow_nan=False),
        "summary": lambda: plan_summary_text(plan),
        "urdf": lambda: UrdfExporter(plan).robot(0),
    }
    return found | {name: measure(step) for name, step in steps.items()}


def write(directory: Path, name: str, size: int) -> Path:
    file = directory / f"{name}_{size}.usda"
    file.write_text(f"{HEADER}{ASSETS[name][0](size)}}}\n", encoding="utf-8")
    return file


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.heavy) for name in ("chain", "star", "parallel")),
        "topics",
        "attributes",
    ],
)
def test_cost_grows_in_proportion_to_size(name: str, tmp_path: Path, number_of_calls: Measure) -> None:
    _, size, whole = ASSETS[name]
    if WHOLE:
        costs(write(tmp_path, name, 10), seconds_of_cpu)
        found = costs(write(tmp_path, name, whole), seconds_of_cpu)
        print(f"{name} {whole}: " + ", ".join(f"{step} {spent:.2f} s" for step, spent in found.items()))
        assert max(found.values()) < MOST_S, found
        return
    # Tables change their form at MOST_ROWS.
    assert size > MOST_ROWS or name == "attributes"
    # What the first load makes once is not to be counted.
    costs(write(tmp_path, name, 10), number_of_calls)
    once, twice = (costs(write(tmp_path, name, many), number_of_calls) for many in (size, 2 * size))
    grown = {step: (once[step], calls) for step, calls in twice.items() if calls > GROWTH * once[step]}
    assert not grown


@pytest.mark.parametrize("name", ASSETS)
def test_all_passes_over_a_stage_share_what_they_compose_of_a_prim(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    create = PrimProperties.__init__
    monkeypatch.setattr(PrimProperties, "__init__", lambda self, *of: made.append(of[1]) or create(self, *of))
    load_plan(str(write(tmp_path, name, 10)), physics=True)
    assert "/robot" in made
    assert len(made) == len(set(made))


def test_inspect_of_many_rows_shows_every_row(tmp_path: Path) -> None:
    plan = load_plan(str(write(tmp_path, "chain", MOST_ROWS + 1)), physics=True)
    stream = io.StringIO()
    print_plan(plan, TerminalConsole(file=stream, width=200))
    words = set(stream.getvalue().split())
    assert {f"j{number}" for number in range(MOST_ROWS + 1)} <= words
    assert {f"/robot/b{number}" for number in range(MOST_ROWS + 2)} <= words
    assert max(map(len, stream.getvalue().splitlines())) < 300


def test_mujoco_refuses_a_chain_that_it_would_compile_for_hours(tmp_path: Path) -> None:
    pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")
    from usd_ros_bridge.backends.base import BackendContext
    from usd_ros_bridge.backends.mujoco.backend import LONGEST_CHAIN, MujocoBackend

    plan = load_plan(str(write(tmp_path, "chain", LONGEST_CHAIN)), physics=True)
    with pytest.raises(BackendError, match=f"{LONGEST_CHAIN}.*kinematic"):
        MujocoBackend().open(BackendContext(plan=plan, report=lambda *_: None))
    shown = engine_settings(plan)
    assert isinstance(shown, str)
    assert str(LONGEST_CHAIN) in shown
