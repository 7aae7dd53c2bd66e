"""The MuJoCo backend: the asset simulated, with the bridge's commands as targets of its drives."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

import mujoco

from usd_ros_bridge.backends.mujoco.beside import Beside, BesideSensor
from usd_ros_bridge.backends.mujoco.cameras import CameraInfoSensor, add_cameras, make_cameras
from usd_ros_bridge.backends.mujoco.commands import BodyCommands, JointCommands
from usd_ros_bridge.backends.mujoco.divergence import Watch
from usd_ros_bridge.backends.mujoco.entities import Entities
from usd_ros_bridge.backends.mujoco.options import MujocoOptions
from usd_ros_bridge.backends.mujoco.sensing import Measure, equip, make_measures
from usd_ros_bridge.backends.mujoco.simulation import Simulation
from usd_ros_bridge.backends.mujoco.spec import build
from usd_ros_bridge.backends.mujoco.states import StateReader, equip_twists
from usd_ros_bridge.backends.mujoco.succession import take_over
from usd_ros_bridge.backends.protocol import (
    BackendContext,
    BackendInput,
    Capabilities,
    EntityState,
    Report,
)
from usd_ros_bridge.backends.timeline import stage_range
from usd_ros_bridge.model.errors import BackendError
from usd_ros_bridge.model.physics import WORLD_BODY, PhysicsScene
from usd_ros_bridge.model.state import Commands, SensorSample, State
from usd_ros_bridge.model.transforms import FloatArray

_LOG_FILE: Final = "MUJOCO_LOG.TXT"
"""What MuJoCo appends its warnings to by default, in the working directory."""

LONGEST_CHAIN = 1000
"""Bodies that hang from one another: MuJoCo 3.3 to 4.0 compile 1,000 in 2.3 s, and 2,000 in over a minute."""


class MujocoBackend:
    """Rigid bodies, joints, drives and contacts by MuJoCo. It owns time: fixed steps, on a grid.

    - The state is that of the time it is stamped with: poses, velocities and efforts alike.
    - Commands act from the start of the interval that they are given for. What they mean: `JointCommands` and
      `BodyCommands`.
    - Several steps in one call are, bit for bit, the same steps one by one.
    - A simulation that diverges is reported once, with the joint or body that was first, and put back.
    """

    needs_physics = True

    def __init__(self) -> None:
        self.capabilities = Capabilities(joint_driven=False, every_step=False)
        self._run: _Run | None = None

    def open(self, context: BackendContext) -> None:
        """Builds the model from the plan's physics.

        Raises:
            BackendError: The plan has no physics, or MuJoCo refuses what is left of it.
        """
        options = MujocoOptions.parse(context.options)
        if context.plan.physics is None:
            raise BackendError(
                "backend mujoco needs the asset's physics, and the plan has none: load_plan(..., physics=True)"
            )
        self.close()
        _log_without_file()
        self._run = _Run(context, options)
        self.capabilities = self._run.capabilities

    def inputs(self) -> tuple[BackendInput, ...]:
        """Needs nothing: commands come through the plan's own subscriptions."""
        return ()

    def receive(self, key: str, sample: object) -> None:
        """Never called: there are no inputs."""

    def step(self, time_ns: int, commands: Commands) -> State:
        """Advances to the last step at or before `time_ns`; the first call is one step on from rest."""
        return self._running.step(time_ns, commands)

    def sense(self, prim: str) -> SensorSample | None:
        """Returns the newest measurement of the interface at `prim`."""
        return self._running.sense(prim)

    def reset(self) -> None:
        """Goes back to the opening state, bit for bit, and forgets all targets."""
        self._running.reset()

    def close(self) -> None:
        """Lets the model go."""
        run, self._run = self._run, None
        if run is not None:
            run.close()

    def entities(self) -> tuple[str, ...]:
        """Returns the prim paths of all bodies."""
        return self._running.entities.paths

    def entity_state(self, path: str) -> EntityState:
        """Returns how a body moves now."""
        return self._running.entities.state(path)

    def set_entity_state(
        self, path: str, *, pose: FloatArray | None = None, twist: FloatArray | None = None
    ) -> str:
        """Puts a free or kinematic body elsewhere; a new pose without a twist leaves it standing still."""
        return self._running.entities.place(path, pose, twist)

    def entity_bounds(self, path: str) -> tuple[FloatArray, FloatArray] | None:
        """Returns the lowest and highest corner (3,) of a body's colliders and of all that hangs from it."""
        return self._running.entities.bounds(path)

    def successor(self) -> MujocoBackend:
        """Returns another one, to be opened on what became of the asset."""
        return type(self)()

    def take_over(self, other: MujocoBackend) -> None:
        """Goes on from another's state; what was held because it diverged starts over."""
        self._running.take_over(other._running)

    @property
    def simulation(self) -> Simulation:
        """What is simulated, for those who know MuJoCo: `model` and `data` may be read between two steps."""
        return self._running.simulation

    @property
    def _running(self) -> _Run:
        assert self._run is not None, "the backend is not open"
        return self._run


def _log_without_file() -> None:
    """Keep MuJoCo from leaving MUJOCO_LOG.TXT in the working directory. A host's own log file stays."""
    configuration = getattr(mujoco, "MjLogConfig", None)
    if configuration is None:
        # Before MuJoCo 4 a handler replaces the file.
        if mujoco.get_mju_user_warning() is None:
            mujoco.set_mju_user_warning(logging.getLogger("usd_ros_bridge").warning)
        return
    current = configuration.get()
    if current.logfile == _LOG_FILE:
        current.logto_file = False
        current.set()


def _check_chains(scene: PhysicsScene) -> None:
    """Refuse chains that MuJoCo's compiler needs minutes and gigabytes for: its cost grows with their cube.

    Raises:
        BackendError: A chain is too long.
    """
    lengths: dict[int, int] = {WORLD_BODY: 0}
    for number, body in enumerate(scene.bodies):
        # Parents come first.
        lengths[number] = 1 + lengths.get(body.parent if body.joints else WORLD_BODY, 0)
        if lengths[number] > LONGEST_CHAIN:
            raise BackendError(
                f"{body.path} is body {lengths[number]} of a chain; MuJoCo compiles at most {LONGEST_CHAIN} in "
                "reasonable time: use the kinematic backend, or shorter chains"
            )


class _Run:
    """Everything between `open` and `close`."""

    def __init__(self, context: BackendContext, options: MujocoOptions) -> None:
        plan, scene, report = context.plan, context.plan.physics, context.report
        assert scene is not None
        _check_chains(scene)
        _look_for_ground(scene, report)
        built = build(scene, report, options=options.spec)
        equip_twists(built, scene)
        equip(built, scene)
        add_cameras(built, plan.scene.cameras, samples=options.samples, shadows=options.shadows)
        self.simulation = Simulation(built.compile(), stage_range(plan, loop=options.loop))
        self._step_ns = self.simulation.step_ns
        self._reader = StateReader(self.simulation, plan, loop=options.loop)
        self._joints = JointCommands(self.simulation, plan.layout, report)
        self._bodies = BodyCommands(self.simulation, plan.layout, report)
        self._watch = Watch(self.simulation, options.on_divergence, report)
        self.entities = Entities(self.simulation)
        # Two threads: a large picture is not to keep clouds waiting.
        rays, pictures = (
            Beside(self.simulation, report=report, lockstep=options.lockstep, name=f"usd_ros_bridge.{name}")
            for name in ("rays", "cameras")
        )
        self._workers = (rays, pictures)
        measures = make_measures(self.simulation, rays, seed=context.seed, noise=options.noise)
        self._measures: Mapping[str, Measure] = measures | make_cameras(pictures, plan, context, options)
        self._started = False
        self.capabilities = Capabilities(
            joint_driven=False,
            every_step=False,
            step_ns=self._step_ns,
            sensors=frozenset(self._measures),
            beside=frozenset(
                path
                for path, measure in self._measures.items()
                if isinstance(measure, BesideSensor | CameraInfoSensor)
            ),
        )

    def step(self, time_ns: int, commands: Commands) -> State:
        simulation, step_ns = self.simulation, self._step_ns
        if self._started:
            count = (time_ns - simulation.time_ns) // step_ns
        else:
            self._started = True
            simulation.time_ns = (time_ns // step_ns - 1) * step_ns
            count = 1
        if self._watch.held:
            simulation.time_ns += max(0, count) * step_ns
            return self._reader.stand_still()
        if not commands.silent:
            self._joints.take(commands)
            if commands.has_controls:
                self._joints.take_controls(commands.actuator_control)
            if commands.has_bodies:
                self._bodies.take(commands)
        if count > 0:
            self._watch.begin()
            self._advance(count)
            if self._watch.end(count):
                self._joints.reset()
        return self._reader.read()

    def take_over(self, other: _Run) -> None:
        take_over(self.simulation, other.simulation)
        self._joints.take_over(other._joints)
        for worker, before in zip(self._workers, other._workers, strict=True):
            worker.follow(before)
        self._started = other._started

    def sense(self, prim: str) -> SensorSample | None:
        return self._measures[prim].measure(self.simulation.time_ns)

    def reset(self) -> None:
        self.simulation.reset()
        self._joints.reset()
        self._watch.reset()
        for worker in self._workers:
            worker.reset()
        self._started = False

    def close(self) -> None:
        """Ends what runs beside the loop."""
        for worker in self._workers:
            worker.close()

    def _advance(self, count: int) -> None:
        """Makes steps; one by one as long as targets are on their way."""
        joints, simulation = self._joints, self.simulation
        while count and joints.moving:
            joints.advance()
            simulation.step(1)
            count -= 1
        if count:
            simulation.step(count)


def _look_for_ground(scene: PhysicsScene, report: Report) -> None:
    """Says so where there is nothing that could catch a robot: its own file is often without a ground."""
    falls = [body.path for body in scene.bodies if body.robot >= 0 and not (body.joints or body.kinematic)]
    caught = any(
        collider.body == WORLD_BODY or scene.bodies[collider.body].kinematic for collider in scene.colliders
    )
    if falls and not caught and any(scene.gravity):
        report(
            "mujoco.no_ground",
            f"{falls[0]} falls: nothing in the stage is static and collides; add a ground, or choose "
            "backend kinematic",
        )
