"""What commands do not move: as planned from the asset, as MuJoCo's model has it, and as its controls change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from case_tables import each_case

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")

from contextlib import closing

from open_backend import Opened

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.model.actuation import INTERFACES, Unmoved, find_unmoved
from usd_ros_bridge.model.plan import followers_of
from usd_ros_bridge.model.state import Commands

ROOT = Path(__file__).parents[4]
ASSETS = [
    *sorted((ROOT / "test" / "assets").glob("[cj]*.usda")),
    *sorted((ROOT / "test" / "assets").glob("physics_[ams]*.usda")),
    ROOT / "examples" / "rover" / "world.usda",
    ROOT / "examples" / "arm" / "arm.usda",
    ROOT / "examples" / "mujoco_loop" / "pan_tilt.usda",
]
STEP = 2_000_000


def rows(groups: tuple[Unmoved, ...]) -> set[int]:
    return set().union(*(group.rows for group in groups))


@each_case("asset", ASSETS)
def test_the_plan_and_mujocos_model_agree(asset: Path) -> None:
    try:
        plan = load_plan(asset, physics=True)
    except BridgeError as error:
        pytest.skip(str(error))
    assert plan.physics is not None
    planned = find_unmoved(plan.physics, plan.asset)
    with closing(Opened(plan).backend) as backend:
        simulated = backend.capabilities.unmoved
        for interface in ("position", "velocity"):
            assert rows(planned[interface]) == rows(tuple(simulated[interface])), interface
        # Axes of a ball joint have no motor.
        balls = {dof.row for joint in plan.physics.joints if joint.type == "spherical" for dof in joint.dofs}
        assert rows(planned["effort"]) - balls == rows(tuple(simulated["effort"])) - balls


@each_case("interface", INTERFACES)
@each_case("asset", ASSETS[-3:])
def test_a_command_changes_a_control_exactly_where_it_is_not_unmoved(asset: Path, interface: str) -> None:
    plan = load_plan(asset, physics=True)
    followers = followers_of(plan)
    with closing(Opened(plan).backend) as backend:
        data = backend.simulation.data
        backend.step(STEP, Commands(plan.layout))
        stuck = rows(tuple(backend.capabilities.unmoved[interface]))  # type: ignore[index]
        for row in sorted(set(range(len(plan.layout.dofs))) - followers):
            before = data.ctrl.copy()
            commands = Commands(plan.layout)
            getattr(commands, f"joint_{interface}")[row] = 0.0625
            commands.silent = False
            for _ in range(2):
                backend.step(backend.simulation.time_ns + STEP, commands)
            assert np.array_equal(data.ctrl, before) == (row in stuck), plan.layout.dofs[row]
