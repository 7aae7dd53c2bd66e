"""The MuJoCo backend: simulate the asset, with the bridge's commands as targets of its drives."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

import mujoco
import numpy as np

from usd_ros_bridge.backends.async_sensors import AsyncSensor
from usd_ros_bridge.backends.base import (
    BackendContext,
    BodyContacts,
    Capabilities,
    EntityState,
    InputlessBackend,
)
from usd_ros_bridge.backends.mujoco.actuators import add_actuators
from usd_ros_bridge.backends.mujoco.bodies import add_bodies, set_sleep_policies
from usd_ros_bridge.backends.mujoco.cameras import CameraInfoSensor, add_cameras, make_cameras
from usd_ros_bridge.backends.mujoco.commands import BodyCommands, JointCommands
from usd_ros_bridge.backends.mujoco.compiled_model import compile_model
from usd_ros_bridge.backends.mujoco.contacts import combine_materials, filter_collisions
from usd_ros_bridge.backends.mujoco.geoms import add_colliders, add_visuals
from usd_ros_bridge.backends.mujoco.instruments import add_sensor_sites
from usd_ros_bridge.backends.mujoco.loops import add_loops
from usd_ros_bridge.backends.mujoco.mujoco_options import MujocoOptions, set_solver_options
from usd_ros_bridge.backends.mujoco.ray_caster import WorldRayCaster, body_contacts, seen_surfaces
from usd_ros_bridge.backends.mujoco.sensors import PoseSnapshot, SensorReader, SensorWorker, make_sensors
from usd_ros_bridge.backends.mujoco.simulation import DivergenceMonitor, Simulation, transfer_state
from usd_ros_bridge.backends.mujoco.spec_builder import SpecBuilder
from usd_ros_bridge.backends.mujoco.state_reader import StateReader, add_twist_sensors
from usd_ros_bridge.backends.mujoco.stiff_drives import SolvedDrive, add_drive_tendons, solve_drives
from usd_ros_bridge.backends.mujoco.tyres import add_tyres, find_tyres
from usd_ros_bridge.backends.time_samples import stage_range
from usd_ros_bridge.errors import BackendError, quoted
from usd_ros_bridge.model.change import same
from usd_ros_bridge.model.physics import WORLD_BODY, PhysicsScene
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import Commands, SensorSample, State
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.spatial.transforms import FloatArray

_LOG_FILE: Final = "MUJOCO_LOG.TXT"
"""MuJoCo's default log file, in the working directory."""

SEGMENTATION: Final = "#segmentation"
"""End of the paths of images that tell surfaces apart."""

LONGEST_CHAIN = 1000
"""Most bodies in a chain: MuJoCo 3.3 to 4.0 compile 1,000 in 2.3 s, and 2,000 in over a minute."""


class MujocoBackend(InputlessBackend):
    """Simulate rigid bodies, joints, drives and contacts with MuJoCo. The backend owns time: fixed steps, on a grid.

    - The state is that of its stamp: poses, velocities and efforts alike.
    - Commands act from the start of the interval that they are given for. Their meaning: `JointCommands` and
      `BodyCommands`.
    - Several steps in one call equal the same steps one by one, bit for bit.
    - A simulation that diverges is reported once, with the first joint or body, and set back.
    """

    needs_physics = True

    def __init__(self, last_spec: LastSpec | None = None) -> None:
        """Store the specification that a backend on the asset before its change built."""
        self.capabilities = Capabilities(joint_driven=False, every_step=False)
        self._session: _Session | None = None
        self._last_spec = last_spec

    def open(self, context: BackendContext) -> None:
        """Build the model from the plan's physics.

        Raises:
            BackendError: The plan has no physics, or MuJoCo refuses the model.
        """
        options = MujocoOptions.parse(context.options)
        if context.plan.physics is None:
            raise BackendError(
                "backend mujoco needs the asset's physics, and the plan has none: load_plan(..., physics=True)"
            )
        self.close()
        _disable_log_file()
        self._session = _Session(context, context.plan.physics, options, self._last_spec)
        self.capabilities = self._session.capabilities

    def step(self, time_ns: int, commands: Commands) -> State:
        """Advance to the last step at or before `time_ns`; the first call makes one step from the initial state."""
        return self._opened.step(time_ns, commands)

    def sense(self, prim: str) -> SensorSample | None:
        """Return the newest measurement of the interface at `prim`."""
        opened = self._opened
        return opened.sensors[prim].measure(opened.simulation.time_ns)

    def reset(self) -> None:
        """Go back to the initial state, bit for bit, and forget all targets."""
        self._opened.reset()

    def close(self) -> None:
        """Free the model. Idempotent."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    # --- EntityBackend -----------------------------------------------------------------------------------------

    def entities(self) -> tuple[str, ...]:
        """Return the prim paths of all bodies."""
        return tuple(self._opened.body_index)

    def entity_state(self, path: str) -> EntityState:
        """Return pose, twist and acceleration of a body; contacts and gravity act on it."""
        simulation, body = self.simulation, self._opened.body_index[path]
        return EntityState(
            pose=simulation.world_from_body(body),
            twist=simulation.body_twist(body),
            acceleration=simulation.body_acceleration(body),
        )

    def set_entity_state(
        self, path: str, *, pose: FloatArray | None = None, twist: FloatArray | None = None
    ) -> str:
        """Set the state of a free or kinematic body; a new pose without a twist leaves it at rest.

        Returns:
            "", or why that is not possible.
        """
        simulation, body = self.simulation, self._opened.body_index[path]
        for name, numbers, size in (("pose", pose, 7), ("twist", twist, 6)):
            if numbers is not None and not (numbers.shape == (size,) and np.isfinite(numbers).all()):
                return f"the {name} is not {size} finite numbers"
        if pose is not None and not np.linalg.norm(pose[3:]) > 1e-6:
            return "the quaternion is zero"
        if simulation.set_body_state(body, pose, twist):
            return ""
        scene = simulation.compiled.scene
        joints = scene.bodies[body].joints
        if joints:
            return f"{quoted(path)} hangs from the joint {quoted(scene.joints[joints[0]].path)}"
        return f"{quoted(path)} cannot move"

    def entity_bounds(self, path: str) -> tuple[FloatArray, FloatArray] | None:
        """Return the lowest and highest corner (3,) of the colliders of a body and of its descendants."""
        return self.simulation.body_bounds(self._opened.body_index[path])

    # --- For sensor models of plug-ins -----------------------------------------------------------------------------

    def ray_caster(self) -> WorldRayCaster:
        """Return a caster for one thread: colliders stop rays, visible or not."""
        return WorldRayCaster(self.simulation.compiled)

    def copy_poses(self) -> PoseSnapshot:
        """Return a copy of the state that poses follow from."""
        return PoseSnapshot.of(self.simulation.data, self.simulation.time_ns)

    def image(self, path: str) -> SensorSample | None:
        """Return the newest image; segmentation distinguishes the surfaces of `image_surfaces`."""
        sample = self.sense(path)
        if sample is None or not path.endswith(SEGMENTATION):
            return sample
        surfaces = seen_surfaces(self.simulation.compiled)[sample.arrays["data"]]
        return replace(sample, arrays={"data": surfaces})

    def image_surfaces(self) -> tuple[str, ...]:
        """Return the prim paths of the colliders, then of the visuals."""
        scene = self.simulation.compiled.scene
        return (*(each.path for each in scene.colliders), *(each.path for each in scene.visuals))

    def contacts(self, body: str) -> BodyContacts:
        """Return the contacts of a body, with the forces of the current state."""
        simulation = self.simulation
        simulation.update_forces()
        return body_contacts(simulation.compiled, self._opened.body_index[body], simulation.data)

    # --- StateTransferBackend ----------------------------------------------------------------------------------

    def new_instance(self) -> MujocoBackend:
        """Return another backend, to be opened on the changed asset. It uses the specification again if it can."""
        # Only a stage that changes needs it: specifications hold the meshes a second time.
        return type(self)(self._last_spec or LastSpec())

    def transfer_state(self, old: MujocoBackend) -> None:
        """Copy the state of another backend; a simulation that was held because it diverged starts over."""
        self._opened.transfer_state(old._opened)

    @property
    def simulation(self) -> Simulation:
        """Return the simulation; its `model` and `data` may be read between two steps."""
        return self._opened.simulation

    @property
    def drives(self) -> tuple[SolvedDrive, ...]:
        """Return how each drive is solved: as a row of the solver, or by actuators."""
        return self._opened.drives

    @property
    def _opened(self) -> _Session:
        assert self._session is not None, "the backend is not open"
        return self._session


class LastSpec:
    """The specification that was built last. A scene that differs in its sensors or time samples alone gets a copy."""

    def __init__(self) -> None:
        self._builder: SpecBuilder | None = None
        self._reports: list[tuple[str, str]] = []

    def build(self, scene: PhysicsScene, report: Report, options: MujocoOptions) -> SpecBuilder:
        """Return the specification of a scene; arguments as those of `build_spec`."""
        if self._builder is None or not self._fits(self._builder, scene, options):
            self._builder, self._reports = None, []
            self._builder = build_spec(scene, self._note, options=options)
        for kind, message in self._reports:
            report(kind, message)
        return self._builder.copy(scene, report)

    def _note(self, kind: str, message: str) -> None:
        self._reports.append((kind, message))

    @staticmethod
    def _fits(builder: SpecBuilder, scene: PhysicsScene, options: MujocoOptions) -> bool:
        alike = replace(builder.scene, sensors=scene.sensors, tracks=scene.tracks)
        return options == builder.options and same(alike, scene)


class _Session:
    """Everything that exists between `open` and `close`.

    Attributes:
        simulation: The simulation.
        sensors: Sensors by prim path of the interface.
        body_index: Index of each body in the physics scene, by prim path.
        drives: How the drives are solved.
        capabilities: The backend's capabilities.
    """

    def __init__(
        self,
        context: BackendContext,
        scene: PhysicsScene,
        options: MujocoOptions,
        last_spec: LastSpec | None,
    ) -> None:
        plan, report = context.plan, context.report
        builder = make_builder(plan, scene, report, options, last_spec=last_spec)
        add_drive_tendons(builder)
        compiled = compile_model(builder)
        self.drives = solve_drives(compiled, stiff_drives=options.stiff_drives)
        self.simulation = Simulation(compiled, stage_range(plan, loop=options.loop), drives=self.drives)
        self.body_index = {body.path: index for index, body in enumerate(scene.bodies)}
        self._step_ns = self.simulation.step_ns
        self._reader = StateReader(self.simulation, plan, loop=options.loop)
        self._joints = JointCommands(self.simulation, plan.layout, report, asset=plan.asset)
        self._bodies = BodyCommands(self.simulation, plan.layout, report)
        self._divergence = DivergenceMonitor(self.simulation, options.on_divergence, report)
        # Two threads: a large image must not delay point clouds.
        rays, images = (
            SensorWorker(
                self.simulation.model,
                self.simulation.data,
                report=report,
                lockstep=options.lockstep,
                name=f"usd_ros_bridge.{name}",
            )
            for name in ("rays", "cameras")
        )
        self._workers = (rays, images)
        self.sensors: dict[str, SensorReader] = make_sensors(
            self.simulation, rays, seed=context.seed, noise=options.noise
        )
        self.sensors |= make_cameras(images, plan, context, options)
        self._started = False
        self.capabilities = Capabilities(
            joint_driven=False,
            every_step=False,
            step_ns=self._step_ns,
            sensors=frozenset(self.sensors),
            unmoved=self._joints.unmoved,
            lockstep=options.lockstep,
            noise=options.noise,
            async_sensors=frozenset(
                path
                for path, sensor in self.sensors.items()
                if isinstance(sensor, AsyncSensor | CameraInfoSensor)
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
        if self._divergence.held:
            simulation.time_ns += max(0, count) * step_ns
            return self._reader.stand_still()
        if not commands.silent:
            self._joints.apply(commands, time_ns)
            if commands.has_controls:
                self._joints.apply_controls(commands.actuator_control)
            if commands.has_bodies:
                self._bodies.apply(commands)
        if count > 0:
            self._divergence.begin(count)
            self._advance(count)
            if self._divergence.end(count):
                self._joints.reset()
        return self._reader.read()

    def _advance(self, count: int) -> None:
        """Make steps, one by one as long as targets move."""
        joints, simulation = self._joints, self.simulation
        moved = joints.moving
        while count and joints.moving:
            joints.advance()
            simulation.step(1)
            count -= 1
        if count:
            simulation.step(count)
        if moved:
            joints.end_interval()

    def transfer_state(self, old: _Session) -> None:
        transfer_state(self.simulation, old.simulation)
        self._joints.transfer_state(old._joints)
        for worker, before in zip(self._workers, old._workers, strict=True):
            worker.start_after(before)
        self._started = old._started

    def reset(self) -> None:
        self.simulation.reset()
        self._joints.reset()
        self._divergence.reset()
        for worker in self._workers:
            worker.reset()
        self._started = False

    def close(self) -> None:
        for worker in self._workers:
            worker.close()


def make_builder(
    plan: BridgePlan,
    scene: PhysicsScene,
    report: Report,
    options: MujocoOptions,
    *,
    last_spec: LastSpec | None = None,
) -> SpecBuilder:
    """Build the specification of a plan, with its sensors and cameras; it is ready to be compiled.

    Args:
        plan: The plan.
        scene: Its physics.
        report: As for `build_spec`.
        options: Options of the backend.
        last_spec: Builds the specification, or copies an earlier one; None: build it.

    Raises:
        BackendError: A chain of bodies is too long for MuJoCo.
    """
    _check_ground(scene, report)
    if last_spec is None:
        builder = build_spec(scene, report, options=options)
    else:
        builder = last_spec.build(scene, report, options)
    add_twist_sensors(builder, scene)
    add_sensor_sites(builder, scene)
    add_cameras(builder, plan.scene.cameras, samples=options.samples, shadows=options.shadows)
    return builder


def build_spec(scene: PhysicsScene, report: Report, *, options: MujocoOptions | None = None) -> SpecBuilder:
    """Build a MuJoCo specification of a scene; docs/reference/mujoco.md has the mapping, row by row.

    Args:
        scene: The scene.
        report: Receives what cannot be mapped: one report for each prim, of a kind that begins with `mujoco.`.
        options: Options of the backend.

    Returns:
        The specification, to which sites, cameras and sensors may be added before it is compiled.

    Raises:
        BackendError: A chain of bodies is too long for MuJoCo.
    """
    _check_chains(scene)
    builder = SpecBuilder(scene, report, options or MujocoOptions())
    set_solver_options(builder.spec, scene, builder.options)
    add_bodies(builder)
    add_colliders(builder)
    add_visuals(builder)
    add_loops(builder)
    add_actuators(builder)
    set_sleep_policies(builder)
    tyres = find_tyres(builder)
    filter_collisions(builder, tyres)
    combine_materials(builder)
    add_tyres(builder, tyres)
    return builder


def _disable_log_file() -> None:
    """Keep MuJoCo from writing MUJOCO_LOG.TXT into the working directory. A host's own log file stays."""
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


def _check_ground(scene: PhysicsScene, report: Report) -> None:
    """Report a robot that falls because nothing static collides: a robot's own file often has no ground."""
    if scene.falling_body:
        report(
            "mujoco.no_ground",
            f"{scene.falling_body} falls: nothing in the stage is static and collides; add a ground, or choose "
            "backend kinematic",
        )
