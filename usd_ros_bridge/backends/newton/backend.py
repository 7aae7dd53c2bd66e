"""The newton backend: commands to Newton's controls, Newton's arrays to the plan's rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.array import ArrayBackend
from usd_ros_bridge.backends.backend_options import option_parsers
from usd_ros_bridge.backends.base import (
    BackendContext,
    Capabilities,
    InputlessBackend,
    option_value,
    parse_options,
)
from usd_ros_bridge.backends.newton.engine import Engine, FloatArray, NewtonRows, find_free, find_newton_rows
from usd_ros_bridge.backends.time_samples import PoseTracks, stage_range
from usd_ros_bridge.errors import BackendError, quoted
from usd_ros_bridge.model.actuation import (
    INTERFACES,
    UnmovedByInterface,
    drives_remedy,
    group_unmoved,
)
from usd_ros_bridge.model.controller_schemas import CommandInterface
from usd_ros_bridge.model.plan import BridgePlan, followers_of
from usd_ros_bridge.model.state import Commands, State
from usd_ros_bridge.options import SOLVERS
from usd_ros_bridge.spatial.transforms import rotate

_DEFAULT_SECONDS = 0.002

_UNITS = frozenset({"1.1.meters_per_unit", "1.1.kilograms_per_unit"})
"""Diagnostics of stages in other units than Newton's."""


class NewtonBackend(InputlessBackend):
    """Simulate the stage by `newton.ModelBuilder.add_usd` and SolverMuJoCo: MuJoCo on the CPU, MuJoCo Warp on a GPU.

    - Position and velocity targets go to the joints' drives, efforts are added to those of the drives; each holds until
      the joint's next command of the same kind.
    - Velocities and efforts are those of the joints; an effort is that of the drive in the last step.
    - Kinematic bodies follow their time samples, and move the objects that lie on them.
    - A pose moves a free body, at rest. Twists are refused: forces move bodies.
    - The stage must be in metres and kilograms: Newton's import does not convert units.
    """

    needs_physics = True
    """For the diagnostics of what Newton does not simulate; the engine itself imports the stage."""

    capabilities = Capabilities(joint_driven=False, step_ns=round(_DEFAULT_SECONDS * 1e9))

    def __init__(self) -> None:
        self._context: BackendContext | None = None
        self._engine: Engine | None = None
        self._rows: NewtonRows | None = None
        self._view: ArrayBackend | None = None
        self._animations: _Animations | None = None
        self._start_ns: int | None = None
        self._steps = 0

    def open(self, context: BackendContext) -> None:
        """Import the stage.

        Raises:
            BackendError: An option is not possible, there is no stage, or Newton cannot import it.
        """
        values = parse_options(
            "newton",
            context.options,
            option_parsers("newton"),
        )
        plan = context.plan
        authored = None if plan.physics is None else plan.physics.timestep
        seconds = option_value(values, "dt", float, authored or _DEFAULT_SECONDS)
        step_ns = round(seconds * 1e9)
        _check_units(plan)
        engine = Engine(
            _stage(plan),
            solvers=option_value(values, "schema_resolvers", tuple, SOLVERS),
            device=option_value(values, "device", str, ""),
        )
        self._context, self._engine = context, engine
        self._rows = find_newton_rows(plan, engine, context.report)
        self.capabilities = Capabilities(
            joint_driven=False, step_ns=step_ns, unmoved=_find_unmoved(plan, engine, self._rows)
        )
        self._view = _make_view(plan, engine, self._rows)
        self._animations = _Animations(context, engine)
        if self._animations:
            self._animations.update(0.0)
        self._view.open(BackendContext(plan=plan, report=context.report))
        self._start_ns, self._steps = None, 0

    def step(self, time_ns: int, commands: Commands) -> State:
        """Advance to the last step at or before `time_ns`; the first call makes one step from the initial state."""
        engine, view = self._engine, self._view
        assert engine is not None, "the backend is not open"
        assert view is not None
        step_ns = self.capabilities.step_ns
        if self._start_ns is None:
            self._start_ns = (time_ns // step_ns - 1) * step_ns
        if not commands.silent:
            self._command(commands)
        steps = (time_ns - self._start_ns) // step_ns - self._steps
        if steps > 0 and self._animations:
            for number in range(self._steps + 1, self._steps + steps + 1):
                engine.step(1, step_ns * 1e-9)
                self._animations.update(number * step_ns * 1e-9)
        elif steps > 0:
            engine.step(steps, step_ns * 1e-9)
        self._steps += max(0, steps)
        return view.step(self._start_ns + self._steps * step_ns, commands)

    def reset(self) -> None:
        """Go back to the imported state."""
        assert self._engine is not None, "the backend is not open"
        assert self._view is not None
        self._engine.reset()
        if self._animations:
            self._animations.update(0.0)
        self._view.reset()
        self._start_ns, self._steps = None, 0

    def close(self) -> None:
        """Free the model."""
        self._context = self._engine = self._rows = self._view = self._animations = None

    # --- Private -----------------------------------------------------------------------------------------------

    def _command(self, commands: Commands) -> None:
        engine, rows, context = self._engine, self._rows, self._context
        assert engine is not None
        assert rows is not None
        assert context is not None
        layout = context.plan.layout
        position = np.clip(commands.joint_position, layout.lower, layout.upper)
        velocity = np.clip(commands.joint_velocity, -layout.max_velocity, layout.max_velocity)
        control = engine.control
        self._write(control.joint_target_q, rows.positions, position)
        self._write(control.joint_target_qd, rows.velocities, velocity)
        if commands.has_effort:
            self._write(control.joint_f, rows.velocities, commands.joint_effort)
        if commands.has_bodies:
            self._move(commands)

    def _write(self, array: object, rows: NDArray[np.intp], values: NDArray[np.float64]) -> None:
        assert self._engine is not None
        given = np.flatnonzero((values == values) & (rows >= 0))
        if given.size:
            self._engine.write(array, rows[given], values[given])

    def _move(self, commands: Commands) -> None:
        engine, rows, context = self._engine, self._rows, self._context
        assert engine is not None
        assert rows is not None
        assert context is not None
        for row in np.flatnonzero(~np.isnan(commands.body_pose).any(axis=1)):
            if rows.free[row] < 0:
                body = context.plan.layout.bodies[row]
                context.report("newton.pose", f"{body} hangs from a joint: it cannot be put elsewhere")
                continue
            first, rate = rows.free[row], rows.free_rates[row]
            engine.set_free_joint(
                np.arange(first, first + 7), commands.body_pose[row], np.arange(rate, rate + 6)
            )
        if not np.isnan(commands.body_twist).all():
            context.report("newton.twist", "twists of bodies are ignored: under physics, forces move them")


class _Animations:
    """Kinematic bodies with time samples: set their poses and velocities before each step."""

    def __init__(self, context: BackendContext, engine: Engine) -> None:
        plan, layout = context.plan, context.plan.layout
        tracks = {layout.bodies[t.row]: t for t in plan.scene.pose_tracks if layout.kinematic[t.row]}
        if plan.physics is not None:
            tracks |= {plan.physics.bodies[track.row].path: track for track in plan.physics.tracks}
        tracks = {path: track for path, track in tracks.items() if path in engine.bodies and len(track.time)}
        coordinates, rates = find_free(engine, tuple(tracks))
        still = [path for path, row in zip(tracks, coordinates, strict=True) if row < 0]
        if still:
            context.report(
                "newton.animation", f"kinematic bodies with time samples stand still: {', '.join(still[:3])}"
            )
        found = [(path, track) for path, track in tracks.items() if path not in still]
        self._engine = engine
        self._joints = [
            (np.arange(row, row + 7), np.arange(rate, rate + 6))
            for row, rate in zip(coordinates.tolist(), rates.tolist(), strict=True)
            if row >= 0
        ]
        self._bodies = [engine.bodies[path] for path, _ in found]
        self._tracks = PoseTracks([t.time for _, t in found], [t.world_from_body for _, t in found])
        self._played = stage_range(plan)

    def __bool__(self) -> bool:
        return bool(self._joints)

    def update(self, seconds: float) -> None:
        """Set the bodies to their samples, `seconds` since the start."""
        now, advances = self._played.stage_seconds(seconds)
        poses, twists = self._tracks.at(now)
        centers = self._engine.model.body_com.numpy()
        for (coordinates, rates), body, pose, origin in zip(
            self._joints, self._bodies, poses, twists * advances, strict=True
        ):
            # Newton's velocities are those of centres of mass.
            twist = origin.copy()
            twist[:3] += np.cross(twist[3:], rotate(pose[3:], centers[body].astype(np.float64)))
            self._engine.set_free_joint(coordinates, pose, rates, twist)


def _find_unmoved(plan: BridgePlan, engine: Engine, rows: NewtonRows) -> UnmovedByInterface:
    """Return what commands do not move: a position needs stiffness, a velocity damping, an effort a joint alone."""
    followers = followers_of(plan)
    stiffness, damping = engine.gains()

    def reasons() -> Iterator[tuple[CommandInterface, int, tuple[str, str]]]:
        for row, rate in enumerate(rows.velocities.tolist()):
            if row in followers:
                continue
            if rate < 0:
                for interface in INTERFACES:
                    yield interface, row, ("Newton's import has no such joint", "")
                continue
            undriven = not (stiffness[rate] or damping[rate])
            nothing = "there is no drive", drives_remedy(plan.asset)
            if not stiffness[rate]:
                missing = "the drive has no stiffness", "author a stiffness of the drive above 0"
                yield "position", row, nothing if undriven else missing
            if not damping[rate]:
                missing = "the drive has no damping", "author a damping of the drive above 0"
                yield "velocity", row, nothing if undriven else missing

    return group_unmoved(reasons())


def _make_view(plan: BridgePlan, engine: Engine, rows: NewtonRows) -> ArrayBackend:
    """Return a backend that reads Newton's current arrays in the plan's rows.

    Every source is a callable: the engine swaps its states at every step.
    """
    centers = np.zeros((0, 3), dtype=np.float32)
    if engine.bodies:
        centers = np.asarray(engine.model.body_com.numpy(), dtype=np.float32).reshape(-1, 3)
    return ArrayBackend(
        plan.layout,
        body_pose=engine.body_pose,
        body_twist=lambda: _origin_twist(engine, centers),
        joint_position=engine.joint_position,
        joint_velocity=engine.joint_velocity,
        joint_effort=engine.joint_effort if len(engine.joint_effort()) else None,
        body_rows=rows.bodies,
        joint_rows=rows.positions,
        velocity_rows=rows.velocities,
        commands=False,
    )


def _origin_twist(engine: Engine, centers: FloatArray) -> FloatArray:
    """Return the twists of the bodies' origins; Newton has those of the centres of mass."""
    pose, twist = engine.body_pose(), engine.body_twist()
    vector, scalar = pose[:, 3:6], pose[:, 6:7]
    turn = 2.0 * np.cross(vector, centers)
    lever = centers + scalar * turn + np.cross(vector, turn)
    result: FloatArray = twist.copy()
    result[:, :3] -= np.cross(twist[:, 3:], lever)
    return result


def _stage(plan: BridgePlan) -> object:
    if plan.stage is None:
        raise BackendError("backend newton imports the stage by itself, and this plan was made without one")
    return plan.stage


def _check_units(plan: BridgePlan) -> None:
    wrong = next((each for each in plan.diagnostics if each.code in _UNITS), None)
    if wrong is not None:
        raise BackendError(f"backend newton takes metres and kilograms only: {quoted(wrong.message)}")
