"""Lockstep: what a stop of all shards costs, above the same ticks of one process that waits for nobody."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.harness import Options, Result, median_result
from benchmarks.processes import Child, peer

PERIOD = 0.01
"""Exchange period of the stage, s."""
ROBOTS = (2, 100)
"""Robots of all shards together."""
SHARDS = (2, 4)
_JOIN_SECONDS = 90.0
_RUN_SECONDS = 300.0

_HEAD = """#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 1
    kilogramsPerUnit = 1
    timeCodesPerSecond = 24
    upAxis = "Z"
)
def Xform "World"
{
    def PhysicsScene "physics" {}
    def Plane "ground" ( prepend apiSchemas = ["PhysicsCollisionAPI"] )
    {
        uniform token axis = "Z"
    }
"""
_ROBOT = """
    def Xform "robot_{number}" ( prepend apiSchemas = ["RosContextAPI"] )
    {{
        string ros:context:namespace = "robot_{number}"
        def Cube "box" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI", "PhysicsCollisionAPI"] )
        {{
            double3 xformOp:translate = (0, {number}, 0.3)
            uniform token[] xformOpOrder = ["xformOp:translate"]
            double size = 0.2
            float physics:mass = 1
        }}
        def PhysicsPrismaticJoint "slide"
        {{
            rel physics:body1 = </World/robot_{number}/box>
            point3f physics:localPos0 = (0, {number}, 0.3)
            uniform token physics:axis = "X"
        }}
    }}
"""


def run(options: Options) -> Iterator[Result]:
    """Yields the wall time of an exchange period, as fast as possible, and what of it the lockstep takes."""
    seconds = options.scaled(10, 1) * 1.0
    with tempfile.TemporaryDirectory(prefix="usd_ros_bridge-bench-") as folder:
        for robots in ROBOTS[: options.scaled(2, 1)]:
            stage = Path(folder, f"sliders_{robots}.usda")
            stage.write_text(
                _HEAD + "".join(_ROBOT.format(number=number) for number in range(robots)) + "}\n"
            )
            for shards in SHARDS[: options.scaled(2, 1)]:
                if shards <= robots:
                    yield from _figures(stage, robots, shards, seconds, options.repeats)


def _figures(stage: Path, robots: int, shards: int, seconds: float, repeats: int) -> Iterator[Result]:
    alone = _periods(stage, shards, seconds, repeats, lockstep=False)
    together = _periods(stage, shards, seconds, repeats, lockstep=True)
    what = (
        f"{robots} boxes on rails in {shards} processes, MuJoCo, 10 ms between two stops, as fast as possible"
    )
    name = f"lockstep.{robots}.{shards}"
    yield median_result(f"{name}.period", [each * 1e6 for each in together], "us", compared_with=what)
    yield median_result(
        f"{name}.alone",
        [each * 1e6 for each in alone],
        "us",
        compared_with="one process with all robots, no lockstep",
    )
    yield median_result(
        f"{name}.stop",
        [(ours - other) * 1e6 for ours, other in zip(together, alone, strict=True)],
        "us",
        compared_with="the first minus the second, run by run",
    )


def _periods(stage: Path, shards: int, seconds: float, repeats: int, *, lockstep: bool) -> list[float]:
    """Returns the wall time of an exchange period in each run, s."""
    numbers = range(1, (shards if lockstep else 1) + 1)
    with ExitStack() as stack:
        children: list[Child] = [
            stack.enter_context(peer("lockstep_shard", str(stage), f"{number}/{len(numbers)}"))
            for number in numbers
        ]
        for child in children:
            child.wait_for("ready", _JOIN_SECONDS)
        leader = children[0]
        found = []
        for number in range(repeats + 1):
            leader.say(f"run {seconds}")
            took = leader.wait_for("ran", _RUN_SECONDS)["seconds"]
            # The first run waits for the connections.
            if number:
                found.append(took / (seconds / PERIOD))
        return found
