"""Backend choice: the named backend, or by `auto` the one that fits the asset."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import NamedTuple

from usd_ros_bridge.api import add_physics
from usd_ros_bridge.backends.base import Backend, needs_physics
from usd_ros_bridge.backends.registry import backend_names, load_backend
from usd_ros_bridge.errors import BackendError, BridgeError, quoted_path
from usd_ros_bridge.model.physics import PhysicsScene
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import parse_shard
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.runtime.runtime import Runtime

AUTO = "auto"
KINEMATIC = "kinematic"
MUJOCO = "mujoco"


class Choice(NamedTuple):
    """A backend and what it is to move.

    Attributes:
        plan: With physics, where the backend needs it.
        backend: Not open yet.
        name: For people.
        replaceable: Whether another one may take its place where it cannot be opened.
    """

    plan: BridgePlan
    backend: Backend
    name: str
    replaceable: bool = False


def check_plan(plan: object, bridge: str) -> None:
    """Check that a bridge is given a plan.

    Args:
        plan: What it is given.
        bridge: Name of its class, for the message.

    Raises:
        BridgeError: It is something else; the message says how to make a plan of it.
    """
    if isinstance(plan, BridgePlan):
        return
    is_path = isinstance(plan, (str, os.PathLike))
    given = quoted_path(plan) if is_path else f"a {type(plan).__name__}"
    raise BridgeError(
        f"{bridge}({given}): a bridge takes a plan. Call {bridge}(load_plan(asset), ...), or Bridge.open_asset(asset)"
    )


def wants_physics(backend: str | Backend, *, follows_clock: bool = False, shard: str = "") -> bool:
    """Return whether `choose` is going to look at the stage's physics.

    Args:
        backend: As for `choose`.
        follows_clock: As for `choose`.
        shard: The plan option.

    Raises:
        BackendError: There is no such backend.
        OptionError: `shard` has another form.
    """
    if backend == AUTO:
        return not (follows_clock or _is_one_of_several(shard)) and _can_simulate()
    return needs_physics(load_backend(backend))


def choose(
    plan: BridgePlan, backend: str | Backend, *, follows_clock: bool = False, inform: Report
) -> Choice:
    """Return the backend that was asked for.

    `auto` stands for `mujoco` where that is installed and the asset has drives, actuators, or bodies that fall; else
    for `kinematic`. One of several shards, which cannot be simulated alone, gets `kinematic`, too. So does a robot that
    would fall because nothing is there to land on: a robot's own file, without a world around it, is viewed more often
    than dropped.

    Args:
        plan: The plan.
        backend: Name of an installed backend, `auto`, or a backend.
        follows_clock: Whether the bridge's time is what /clock says: then no backend can own it.
        inform: Reports what `auto` stands for here, and why.

    Raises:
        BackendError: There is no such backend, or it cannot be made.
    """
    if backend != AUTO:
        made = load_backend(backend)
        name = backend if isinstance(backend, str) else type(backend).__name__
        return Choice(add_physics(plan) if needs_physics(made) else plan, made, name)
    shard = plan.options.shard
    if wants_physics(AUTO, follows_clock=follows_clock, shard=shard):
        plan = add_physics(plan)
    if follows_clock:
        name, why = KINEMATIC, "use_sim_time is true: time comes from /clock"
    elif _is_one_of_several(shard):
        name, why = KINEMATIC, f"shard {shard}: a fleet is simulated in one process"
    elif not _can_simulate():
        name, why = KINEMATIC, "MuJoCo, which would simulate forces, is not installed"
    elif plan.physics is None:
        name, why = KINEMATIC, "the plan has no stage to read physics from"
    elif plan.physics.falling_body:
        name, why = KINEMATIC, "the robot would fall: nothing in the asset is there to stand on"
    elif plan.physics.needs_forces:
        name, why = MUJOCO, "the asset has drives, actuators, or bodies that fall"
    else:
        name, why = KINEMATIC, _why_without_forces(plan.physics)
    try:
        made = load_backend(name)
    except BackendError as error:
        # What is installed half, as by a build that failed, must not keep a robot from being shown.
        made, name, why = load_backend(KINEMATIC), KINEMATIC, str(error)
    inform("backend.auto", f"backend {name}: {why}")
    return Choice(plan, made, name, replaceable=name != KINEMATIC)


def open_chosen(
    choice: Choice, make: Callable[[BridgePlan, Backend], Runtime], report: Report
) -> tuple[Runtime, str]:
    """Open the backend that was chosen, or in its place the one that can move anything.

    Args:
        choice: As `choose` returns it.
        make: Makes a runtime.
        report: Reports a replacement.

    Returns:
        The runtime, open, and the name of its backend.

    Raises:
        BackendError: The backend cannot be opened, and it is the one that was asked for.
    """
    runtime = make(choice.plan, choice.backend)
    try:
        runtime.open()
    except BackendError as error:
        if not choice.replaceable:
            raise
        report("backend.replaced", f"{error}: the backend {KINEMATIC} takes its place, without forces")
        runtime = make(choice.plan, load_backend(KINEMATIC))
        runtime.open()
        return runtime, KINEMATIC
    return runtime, choice.name


def _why_without_forces(scene: PhysicsScene) -> str:
    """Return why a scene without drives, and whose robots do not fall, is shown without forces."""
    sagging = any(joint.dofs for joint in scene.joints)
    props = sum(body.robot < 0 and not (body.joints or body.kinematic) for body in scene.bodies)
    found = []
    if sagging:
        found.append("no joint has a drive: under forces all would give way")
    if props:
        found.append(
            f"{props} {'body that is free belongs' if props == 1 else 'bodies that are free belong'} to no robot"
        )
    if not found:
        return "nothing in the asset needs forces: it has neither drives nor bodies that fall"
    return f"{', and '.join(found)}; the backend {MUJOCO} simulates them"


def _is_one_of_several(shard: str) -> bool:
    parsed = parse_shard(shard)
    return parsed is not None and parsed.total > 1


def _can_simulate() -> bool:
    return MUJOCO in backend_names() and find_spec(MUJOCO) is not None
