"""Assets with numbers that nobody means: next to zero, huge, negative, infinite, or none. Nothing may raise.

`EXTREME_NUMBERS=20000 .venv/bin/python -m pytest test/unit/assets/test_extreme_numbers.py` tries more of them.
"""

from __future__ import annotations

import os
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pxr import Sdf, Usd

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.backends.playback import PlaybackBackend
from usd_ros_bridge.export.plan_json import plan_to_json
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.records import ControllerRecord, Record, attribute_fields
from usd_ros_bridge.reporting import OnceReporter
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.usd import quiet

ROOT = Path(__file__).parents[3]
TRIES = int(os.environ.get("EXTREME_NUMBERS", "150"))
ASSETS = (
    *sorted(
        path
        for path in (ROOT / "test/assets").glob("*.usda")
        if not path.stem.startswith(("secret", "error_"))
    ),
    *(ROOT / "examples" / name for name in ("rover/rover.usda", "arm/arm.usda", "mujoco_loop/pan_tilt.usda")),
)
REALS = (
    float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 5e-324, -5e-324, 1e-300, 1e-45, 1e-12, 1e-4, -1.0,
    1e12, 3e38, 1e300, 1.7e308, -1e300,
)  # fmt: skip
INTEGERS = (-(2**31), -1, 0, 1, 1_000_000, 2**31 - 1)
METADATA = ("metersPerUnit", "kilogramsPerUnit", "timeCodesPerSecond", "startTimeCode", "endTimeCode")
SENSORS = (
    "barometer:noise_stddev", "barometer:sea_level_pressure", "camera:cloud_stride", "contact:threshold",
    "georeference:altitude", "georeference:heading", "georeference:latitude", "georeference:longitude",
    "gnss:horizontal_stddev", "gnss:vertical_stddev", "imu:angular_velocity_stddev",
    "imu:linear_acceleration_stddev", "imu:orientation_stddev", "lidar:angle_max", "lidar:angle_min",
    "lidar:elevation_max", "lidar:elevation_min", "lidar:noise_stddev", "lidar:range_max", "lidar:range_min",
    "lidar:rings", "lidar:samples", "magnetometer:noise_stddev", "range:field_of_view", "range:noise_stddev",
    "range:range_max", "range:range_min", "range:rings", "range:samples", "wrench:force_stddev",
    "wrench:torque_stddev",
)  # fmt: skip
SOLVERS = (
    "newton:timeStepsPerSecond", "physxScene:timeStepsPerSecond", "mjc:option:timestep", "mjc:option:impratio",
    "physxJoint:armature", "newton:armature", "mjc:armature", "physxJoint:jointFriction", "mjc:frictionloss",
    "physxJoint:maxJointVelocity", "mjc:damping", "state:angular:physics:position",
)  # fmt: skip


@cache
def text_of(path: Path) -> str:
    with quiet():
        return str(Usd.Stage.Open(str(path)).Flatten().ExportToString())


@cache
def schema_attributes() -> tuple[tuple[str, str], ...]:
    """Names and types of the numbers that records are read from."""
    kinds, found = [Record], set()
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        found |= {(spec.name, spec.type_name) for _, spec in attribute_fields(kind)}
    assert any(name == "ros:diff_drive:wheel_radius" for name, _ in found), ControllerRecord
    return tuple(
        sorted(each for each in found if each[1] in ("double", "float", "int") and "{" not in each[0])
    )


def spoiled(value: Any, generator: random.Random) -> Any:
    """Returns a value in which one number is another."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return generator.choice(INTEGERS)
    if isinstance(value, float):
        return generator.choice(REALS)
    if hasattr(value, "__len__") and len(value) and not isinstance(value, str):
        index = generator.randrange(len(value))
        try:
            inner = spoiled(value[index], generator)
            if inner is None:
                return None
            copied = type(value)(value)
            copied[index] = inner
        except (TypeError, IndexError, OverflowError):
            return None
        return copied
    if hasattr(value, "real"):
        return type(value)(generator.choice(REALS))
    return None


def spoil(stage: Usd.Stage, generator: random.Random) -> str:
    """Replaces one number of a stage; returns which, "" for none."""
    prims = [prim for prim in stage.Traverse() if prim.GetAppliedSchemas() or prim.GetAttributes()]
    way = generator.random()
    try:
        if way < 0.1 or not prims:
            name, value = generator.choice(METADATA), generator.choice(REALS)
            stage.SetMetadata(name, value)
            return f"{name} = {value!r}"
        prim = generator.choice(prims)
        if way < 0.5:
            name, kind = generator.choice(
                [*schema_attributes(), *((each, "double") for each in SOLVERS),
                 *((f"usd_ros_bridge:{each}", "double") for each in SENSORS)]
            )  # fmt: skip
            number = generator.choice(INTEGERS if kind == "int" else REALS)
            prim.CreateAttribute(name, Sdf.ValueTypeNames.Find(kind)).Set(number)
            return f"{prim.GetPath()}.{name} = {number!r}"
        attributes = [each for each in prim.GetAttributes() if each.HasAuthoredValue()]
        if not attributes:
            return ""
        attribute = generator.choice(attributes)
        value = spoiled(attribute.Get(), generator)
        if value is None:
            return ""
        attribute.Set(value)
    except Exception:  # noqa: BLE001 - OpenUSD does not take the value: no asset has it
        return ""
    return f"{attribute.GetPath()} = {str(value)[:200]}"


def run(plan: BridgePlan, backend: Any, step_ns: int) -> None:
    with Runtime(plan, backend, reporter=OnceReporter(lambda _kind, _message: None)) as runtime:
        for tick in range(1, 4):
            runtime.tick(tick * step_ns)


def attempt(seed: int) -> None:
    generator = random.Random(seed)
    path = generator.choice(ASSETS)
    layer = Sdf.Layer.CreateAnonymous(".usda")
    layer.ImportFromString(text_of(path))
    stage = Usd.Stage.Open(layer)
    changes = [change for _ in range(generator.choice((1, 1, 3))) if (change := spoil(stage, generator))]
    if not changes:
        return
    try:
        plan = load_plan(stage, physics=True)
        plan_to_json(plan)
        run(plan, KinematicBackend(), 20_000_000)
        if plan.scene.pose_tracks or plan.scene.joint_tracks:
            run(plan, PlaybackBackend(), 20_000_000)
        if seed % 3 == 0:
            run_physics(plan)
    except Exception as error:
        raise AssertionError(f"{path.name}, seed {seed}: {'; '.join(changes)}: {error!r}") from error


def run_physics(plan: BridgePlan) -> None:
    pytest.importorskip("mujoco", reason="mujoco is not installed")
    from usd_ros_bridge.backends.mujoco import MujocoBackend
    from usd_ros_bridge.errors import BackendError

    try:
        run(plan, MujocoBackend(), 2_000_000)
    except BackendError:
        # One line for the caller: MuJoCo does not take the model.
        return


@pytest.mark.heavy
def test_no_number_of_an_asset_raises() -> None:
    faults = []
    with quiet():
        for seed in range(TRIES):
            try:
                attempt(seed)
            except AssertionError as fault:
                faults.append(str(fault))
    assert not faults, f"{len(faults)} of {TRIES}:\n" + "\n".join(faults[:20])
