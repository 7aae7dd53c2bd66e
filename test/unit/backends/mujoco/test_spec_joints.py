"""Joints of the tree: where they put bodies, by definition of the joint frames; limits, drives, start."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from case_tables import each_case

pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")

import mujoco
from spec_scenes import (
    GRAVITY,
    UNIT,
    Reports,
    apart,
    body0_from_body1,
    body_pose,
    hinged,
    motion,
    random_pose,
    run,
    simulated,
)

from usd_ros_bridge.backends.mujoco.joints import parent_from_child
from usd_ros_bridge.model.physics import (
    WORLD_BODY,
    Body,
    Dof,
    DofAxis,
    Drive,
    Inertial,
    Joint,
    Mimic,
    PhysicsScene,
)
from usd_ros_bridge.spatial.pose import Pose
from usd_ros_bridge.spatial.transforms import compose, inverse, pose_array, xyzw

CONFIGURATIONS = 50
KINDS: dict[str, tuple[Any, tuple[DofAxis, ...]]] = {
    "revolute": ("revolute", ("rotX",)),
    "continuous": ("continuous", ("rotZ",)),
    "prismatic": ("prismatic", ("transY",)),
    "fixed": ("fixed", ()),
    "spherical": ("spherical", ("rotX", "rotY", "rotZ")),
    "planar": ("generic", ("transX", "transY", "rotZ")),
    "generic": ("generic", ("transX", "transY", "transZ", "rotX", "rotY", "rotZ")),
}


def place(compiled: Any, data: Any, positions: np.ndarray[Any, Any]) -> None:
    """Puts all joints of a scene where they are to be; all of them are in the model."""
    assert np.count_nonzero(compiled.qpos_of_dof >= 0) + compiled.balls.dofs.size == len(compiled.dofs)
    compiled.put(data.qpos, positions)
    mujoco.mj_kinematics(compiled.model, data)


@each_case("child_first", [False, True])
@each_case("kind", KINDS)
def test_a_joint_puts_its_bodies_where_its_frames_say(kind: str, child_first: bool) -> None:
    random = np.random.default_rng(1)
    joint_type, axes = KINDS[kind]
    root = Joint(
        path="/root", type="fixed", body0=WORLD_BODY, body1=0, body0_from_joint=random_pose(random),
        body1_from_joint=random_pose(random),
    )  # fmt: skip
    joint = Joint(
        path="/joint", type=joint_type, body0=1 if child_first else 0, body1=0 if child_first else 1,
        dofs=tuple(Dof(axis=axis) for axis in axes), body0_from_joint=random_pose(random),
        body1_from_joint=random_pose(random),
    )  # fmt: skip
    bodies = (
        Body(path="/base", inertial=UNIT, joints=(0,)),
        Body(path="/link", inertial=UNIT, parent=0, joints=(1,)),
    )
    compiled, _, data = simulated(PhysicsScene(bodies=bodies, joints=(root, joint)))
    world_from_base = body0_from_body1(root, ())
    for _ in range(CONFIGURATIONS):
        positions = random.uniform(-3.0, 3.0, len(axes))
        place(compiled, data, positions)
        base_from_link = body0_from_body1(joint, positions.tolist())
        if child_first:
            base_from_link = inverse(base_from_link)
        assert apart(body_pose(compiled, data, 0), world_from_base) <= 1e-9
        assert apart(body_pose(compiled, data, 1), compose(world_from_base, base_from_link)) <= 1e-9


def test_a_joint_to_the_world_may_be_authored_body_first() -> None:
    random = np.random.default_rng(2)
    joint = Joint(
        path="/joint", type="generic", body0=0, body1=WORLD_BODY, dofs=(Dof(axis="transZ"), Dof(axis="rotX")),
        body0_from_joint=random_pose(random), body1_from_joint=random_pose(random),
    )  # fmt: skip
    scene = PhysicsScene(bodies=(Body(path="/body", inertial=UNIT, joints=(0,)),), joints=(joint,))
    compiled, _, data = simulated(scene)
    for _ in range(CONFIGURATIONS):
        positions = random.uniform(-3.0, 3.0, 2)
        place(compiled, data, positions)
        expected = inverse(body0_from_body1(joint, positions.tolist()))
        assert apart(body_pose(compiled, data, 0), expected) <= 1e-9


def test_several_joints_between_two_bodies_act_one_after_another_about_the_rest_pose() -> None:
    """As EdgePlan says: `prod(F_i * motion_i * inverse(F_i)) * rest`, F_i in the parent."""
    random = np.random.default_rng(3)
    world_from_parent, rest = random_pose(random), random_pose(random)
    child_frames = [random_pose(random) for _ in range(3)]
    axes: tuple[DofAxis, ...] = ("rotX", "transZ", "rotY")
    joints = tuple(
        Joint(
            path=f"/joint_{number}", type="prismatic" if axis.startswith("trans") else "revolute",
            body0=WORLD_BODY, body1=0, dofs=(Dof(axis=axis),), body1_from_joint=frame,
            body0_from_joint=as_pose(
                compose(compose(pose_array(world_from_parent), pose_array(rest)), pose_array(frame))
            ),
        )
        for number, (axis, frame) in enumerate(zip(axes, child_frames, strict=True))
    )  # fmt: skip
    scene = PhysicsScene(bodies=(Body(path="/body", inertial=UNIT, joints=(0, 1, 2)),), joints=joints)
    compiled, _, data = simulated(scene)
    for _ in range(CONFIGURATIONS):
        positions = random.uniform(-3.0, 3.0, 3)
        place(compiled, data, positions)
        expected = parent_from_child(0, joints[-1])
        for joint, position in reversed(list(zip(joints, positions.tolist(), strict=True))):
            frame = pose_array(joint.body0_from_joint)
            expected = compose(
                compose(compose(frame, motion(joint.dofs, [position])), inverse(frame)), expected
            )
        assert apart(body_pose(compiled, data, 0), expected) <= 1e-9


def as_pose(array: np.ndarray[Any, Any]) -> Pose:
    """Returns an array (7,) as a pose of the model."""
    x, y, z, a, b, c, d = array.tolist()
    return Pose((x, y, z), (a, b, c, d))


def test_the_start_is_the_authored_one() -> None:
    drive = Drive(stiffness=10.0, damping=1.0, target_position=0.7, target_velocity=-0.2)
    scene = hinged(dof=Dof(axis="rotY", position=0.3, velocity=-1.5, drive=drive))
    compiled, _, data = simulated(scene)
    assert data.time == 0.0
    assert data.qpos[compiled.qpos_of_dof].tolist() == [0.3]
    assert data.qvel[compiled.dof_of_dof].tolist() == [-1.5]
    assert data.ctrl[compiled.position_actuator].tolist() == [0.7]
    assert data.ctrl[compiled.velocity_actuator].tolist() == [-0.2]
    assert data.ctrl[compiled.motor_actuator].tolist() == [0.0]


@each_case("limits", [(-0.5, 0.4), (-math.inf, 0.4), (-0.5, math.inf)])
def test_limits_stop_a_joint_on_the_sides_that_they_have(limits: tuple[float, float]) -> None:
    scene = hinged(dof=Dof(axis="rotY", lower=limits[0], upper=limits[1]), gravity=(0.0, 0.0, 0.0))
    for effort, limit in ((-0.1, limits[0]), (0.1, limits[1])):
        compiled, model, data = simulated(scene)
        data.ctrl[compiled.motor_actuator] = effort
        run(model, data, 1.5)
        if math.isfinite(limit):
            assert data.qpos[0] == pytest.approx(limit, abs=2e-3)
        else:
            assert abs(data.qpos[0]) > 5.0


def test_limits_that_coincide_lock_a_joint() -> None:
    compiled, model, data = simulated(hinged(dof=Dof(axis="rotY", position=0.2, lower=0.2, upper=0.2)))
    data.ctrl[compiled.motor_actuator] = 1.0
    run(model, data, 1.0)
    assert data.qpos[0] == pytest.approx(0.2, abs=2e-3)


def test_springs_dampers_friction_and_armature_act_without_a_drive() -> None:
    weightless = {"gravity": (0.0, 0.0, 0.0)}
    sprung = hinged(
        dof=Dof(axis="rotY", stiffness=2.0, damping=0.2, spring_position=0.5, armature=0.01), **weightless
    )  # fmt: skip
    _, model, data = simulated(sprung)
    assert model.dof_M0[0] == pytest.approx(0.01 + 0.01)
    run(model, data, 3.0)
    assert data.qpos[0] == pytest.approx(0.5, abs=1e-3)
    rubbing = hinged(dof=Dof(axis="rotY", friction=0.5), **weightless)
    for effort, moves in ((0.45, False), (0.55, True)):
        compiled, model, data = simulated(rubbing)
        data.ctrl[compiled.motor_actuator] = effort
        run(model, data, 1.0)
        assert (abs(data.qpos[0]) > 1.0) == moves


def test_springs_whose_behaviour_is_authored() -> None:
    """MuJoCo's compiler makes an inertia of 0.01 kg m^2 swing back critically damped within half a second."""
    scene = hinged(dof=Dof(axis="rotY"), gravity=(0.0, 0.0, 0.0), joint_solver={"spring_damper": (0.5, 1.0)})
    _, model, _ = simulated(scene)
    stiffness, damping = (float(np.ravel(each)[0]) for each in (model.jnt_stiffness, model.dof_damping))
    assert stiffness == pytest.approx(model.dof_M0[0] / 0.5**2)
    assert damping == pytest.approx(2.0 * model.dof_M0[0] / 0.5)


def test_efforts_bounded_unevenly() -> None:
    scene = hinged(dof=Dof(axis="rotY", max_effort=3.0, effort_range=(-3.0, 2.0)), gravity=(0.0, 0.0, 0.0))
    compiled, model, data = simulated(scene)
    for effort, expected in ((5.0, 2.0), (-5.0, -3.0)):
        data.ctrl[compiled.motor_actuator] = effort
        mujoco.mj_forward(model, data)
        assert data.qfrc_actuator[0] == expected


def test_limits_give_way_like_the_springs_that_they_are() -> None:
    """Pressed into its limit by 2 N m, an inertia of 0.01 kg m^2 swings about 0.04 rad and comes to rest there."""
    dof = Dof(axis="rotY", lower=-1.0, upper=0.0, limit_stiffness=50.0, limit_damping=0.1)
    compiled, model, data = simulated(hinged(dof=dof, gravity=(0.0, 0.0, 0.0)))
    data.ctrl[compiled.motor_actuator] = 2.0
    frequency, decay = math.sqrt(50.0 / 0.01 - (0.1 / 0.02) ** 2), 0.1 / 0.02
    for _ in range(100):
        mujoco.mj_step(model, data)
        swing = math.cos(frequency * data.time) + decay / frequency * math.sin(frequency * data.time)
        expected = 0.04 * (1.0 - math.exp(-decay * data.time) * swing)
        assert data.qpos[0] == pytest.approx(expected, abs=0.008)
    run(model, data, 3.0)
    assert data.qpos[0] == pytest.approx(0.04, rel=1e-3)


def test_a_limit_too_stiff_for_the_time_step_is_hard() -> None:
    dof = Dof(axis="rotY", lower=-1.0, upper=0.0, limit_stiffness=1e6, limit_damping=1.0)
    compiled, model, data = simulated(hinged(dof=dof, gravity=(0.0, 0.0, 0.0)))
    data.ctrl[compiled.motor_actuator] = 2.0
    assert model.jnt_solref[0].tolist() == [5 * model.opt.timestep, 1.0]
    run(model, data, 3.0)
    assert data.qpos[0] == pytest.approx(0.0, abs=2e-3)


def test_what_the_joint_says_of_its_limits_and_of_gravity() -> None:
    scene = hinged(
        dof=Dof(axis="rotY", lower=-1.0, upper=1.0),
        joint_solver={"limit_margin": 0.1, "actuator_gravity_compensation": True},
    )
    _, model, _ = simulated(scene)
    assert model.jnt_margin[0] == 0.1
    assert model.jnt_actgravcomp[0] == 1


# --- Drives -------------------------------------------------------------------------------------------------------

LEVER, MASS = 0.5, 2.0
ARM = Inertial(mass=MASS, center=(LEVER, 0.0, 0.0), diagonal=(0.01, 0.01, 0.01))
"""Held out along X: gravity turns it about +Y with `m g l cos(q)`."""


@each_case("stiffness", [50.0, 400.0, 20000.0])
def test_a_drive_settles_where_stiffness_times_error_bears_the_load(stiffness: float) -> None:
    drive = Drive(stiffness=stiffness, damping=0.05 * stiffness)
    compiled, model, data = simulated(hinged(dof=Dof(axis="rotY", drive=drive), inertial=ARM))
    run(model, data, 5.0)
    position = float(data.qpos[0])
    load = MASS * GRAVITY * LEVER * math.cos(position)
    assert stiffness * position == pytest.approx(load, rel=0.01)
    assert data.qfrc_actuator[compiled.dof_of_dof[0]] == pytest.approx(-load, rel=0.01)


def test_position_velocity_and_effort_add_up_and_are_bounded_together() -> None:
    drive = Drive(stiffness=10.0, damping=2.0)
    compiled, model, data = simulated(hinged(dof=Dof(axis="rotY", drive=drive, max_effort=9.0)))
    for target, speed, effort, expected in (
        (0.3, 0.5, 0.7, 4.7),
        (1.0, 0.0, 3.0, 9.0),
        (-2.0, 0.0, 0.0, -9.0),
    ):
        data.ctrl[compiled.position_actuator] = target
        data.ctrl[compiled.velocity_actuator] = speed
        data.ctrl[compiled.motor_actuator] = effort
        mujoco.mj_forward(model, data)
        assert data.qfrc_actuator[0] == pytest.approx(expected)


def test_a_drive_with_damping_alone_follows_a_velocity() -> None:
    drive = Drive(damping=5.0, target_velocity=3.0)
    compiled, model, data = simulated(hinged(dof=Dof(axis="rotY", drive=drive)))
    assert compiled.position_actuator.tolist() == [-1]
    run(model, data, 1.0)
    assert data.qvel[0] == pytest.approx(3.0, rel=1e-3)


def test_a_drive_that_may_not_push_has_no_actuators() -> None:
    drive = Drive(stiffness=100.0, damping=10.0, max_force=0.0)
    compiled, model, _ = simulated(hinged(dof=Dof(axis="rotY", drive=drive, max_effort=0.0)))
    assert model.nu == 0
    assert compiled.motor_actuator.tolist() == [-1]


@pytest.mark.parametrize("mass", [0.2, 20.0])
def test_an_acceleration_drive_moves_any_mass_alike(mass: float) -> None:
    inertial = Inertial(mass=mass, center=(LEVER, 0.0, 0.0), diagonal=(0.01 * mass,) * 3)
    drive = Drive(acceleration=True, stiffness=25.0, damping=10.0, target_position=1.0)
    scene = hinged(dof=Dof(axis="rotY", drive=drive), inertial=inertial, gravity=(0.0, 0.0, 0.0))
    _, model, data = simulated(scene)
    assert data.qacc[0] == pytest.approx(25.0, rel=1e-9)
    run(model, data, 0.4)
    # Critically damped: 1 - (1 + w t) exp(-w t), w = 5/s.
    assert data.qpos[0] == pytest.approx(1.0 - 3.0 * math.exp(-2.0), rel=0.01)


def test_an_acceleration_drive_whose_load_changes_with_the_pose_is_reported() -> None:
    reports = Reports()
    drive = Drive(acceleration=True, stiffness=10.0, damping=1.0)
    joints = (
        Joint(path="/yaw", type="revolute", body0=WORLD_BODY, body1=0, dofs=(Dof(axis="rotZ", drive=drive),)),
        Joint(
            path="/pitch", type="revolute", body0=0, body1=1, dofs=(Dof(axis="rotY", lower=-3.0, upper=3.0),)
        ),
    )
    bodies = (
        Body(path="/turret", inertial=UNIT, joints=(0,)),
        Body(path="/boom", inertial=ARM, parent=0, joints=(1,)),
    )
    simulated(PhysicsScene(bodies=bodies, joints=joints), reports)
    assert list(reports) == ["mujoco.acceleration_drive:/yaw"]


# --- Mimic --------------------------------------------------------------------------------------------------------


def test_a_mimic_joint_follows_its_leader() -> None:
    drive = Drive(stiffness=100.0, damping=10.0, target_position=0.4)
    joints = (
        Joint(path="/left", type="revolute", body0=WORLD_BODY, body1=0, dofs=(Dof(axis="rotZ", drive=drive),)),
        Joint(
            path="/right", type="prismatic", body0=WORLD_BODY, body1=1,
            dofs=(Dof(axis="transX", mimic=Mimic(joint=0, dof=0, multiplier=-0.5, offset=0.1), position=0.1),),
        ),
    )  # fmt: skip
    bodies = tuple(Body(path=f"/finger_{n}", inertial=UNIT, joints=(n,)) for n in range(2))
    compiled, model, data = simulated(PhysicsScene(bodies=bodies, joints=joints))
    assert compiled.motor_actuator[1] == -1
    run(model, data, 2.0)
    assert data.qpos[0] == pytest.approx(0.4, abs=1e-3)
    assert data.qpos[1] == pytest.approx(0.1 - 0.5 * data.qpos[0], abs=1e-4)


def test_a_mimic_joint_follows_powers_of_its_leader() -> None:
    drive = Drive(stiffness=100.0, damping=10.0, target_position=0.5)
    mimic = Mimic(joint=0, dof=0, multiplier=-1.0, offset=0.1, polynomial=(0.4, 0.0, 0.8))
    joints = (
        Joint(path="/left", type="revolute", body0=WORLD_BODY, body1=0, dofs=(Dof(axis="rotZ", drive=drive),)),
        Joint(
            path="/right", type="revolute", body0=WORLD_BODY, body1=1, dofs=(Dof(axis="rotZ", mimic=mimic),),
            solver={"solref": (0.01, 1.0), "solimp": (0.99, 0.999, 0.001, 0.5, 2.0)},
        ),
    )  # fmt: skip
    bodies = tuple(Body(path=f"/finger_{n}", inertial=UNIT, joints=(n,)) for n in range(2))
    _, model, data = simulated(PhysicsScene(bodies=bodies, joints=joints))
    assert model.eq_solref[0].tolist() == [0.01, 1.0]
    run(model, data, 3.0)
    leader = data.qpos[0]
    assert data.qpos[1] == pytest.approx(0.1 - leader + 0.4 * leader**2 + 0.8 * leader**4, abs=1e-4)


def ball(*, cones: tuple[float, float] | None = None, axis: Any = "Z", driven: bool = False) -> PhysicsScene:
    """Returns a top that stands up along `axis` of a spherical joint."""
    swings = [letter for letter in "XYZ" if letter != axis]
    angles = dict(zip(swings, cones or (math.inf, math.inf), strict=True))
    joint = Joint(
        path="/ball", type="spherical", body0=WORLD_BODY, body1=0, axis=axis, cone=cones,
        dofs=tuple(
            Dof(
                axis=name, lower=-angles.get(name[-1], math.inf), upper=angles.get(name[-1], math.inf),
                drive=Drive(damping=0.01) if driven else None,
            )
            for name in ROTATIONS
        ),
    )  # fmt: skip
    center = [0.0, 0.0, 0.0]
    center["XYZ".index(axis)] = 0.5
    inertial = Inertial(mass=1.0, center=(center[0], center[1], center[2]), diagonal=(0.01, 0.01, 0.01))
    body = Body(path="/body", inertial=inertial, joints=(0,))
    return PhysicsScene(
        bodies=(body,), joints=(joint,), gravity=tuple(9.81 * (letter == swings[0]) for letter in "XYZ")
    )


ROTATIONS: tuple[DofAxis, ...] = ("rotX", "rotY", "rotZ")


# Not ("Y", True): three hinges do not twist freely about the middle one, as the documents say.
@each_case(("axis", "driven"), [("X", False), ("Y", False), ("Z", False), ("X", True), ("Z", True)])
def test_a_spherical_joint_keeps_within_its_cone_and_twists_freely(axis: str, driven: bool) -> None:
    cone = math.radians(30.0)
    compiled, model, data = simulated(ball(cones=(cone, cone), axis=axis, driven=driven))
    assert len(compiled.balls) == (not driven)
    number = "XYZ".index(axis)
    twist = np.zeros(3)
    twist[number] = 5.0
    data.qvel[:] = twist
    mujoco.mj_forward(model, data)
    steepest, spun = 1.0, 0.0
    for _ in range(1000):
        mujoco.mj_step(model, data)
        mujoco.mj_kinematics(model, data)
        along = data.xmat[1].reshape(3, 3)[:, number]
        steepest = min(steepest, float(along[number]))
        mujoco.mj_comVel(model, data)
        spun += float(data.cvel[1, :3] @ along) * model.opt.timestep
    # Three hinges make a pyramid: it is wider across its edges.
    widest = math.acos(math.cos(cone) ** 2) if driven else cone
    slack = math.radians(1.5)
    assert cone - slack <= math.acos(steepest) <= widest + slack
    assert abs(spun) > 0.5


def test_a_cone_that_is_not_round_is_made_of_hinges() -> None:
    compiled, _, _ = simulated(ball(cones=(0.3, 0.5)))
    assert len(compiled.balls) == 0
    assert (compiled.qpos_of_dof >= 0).all()


@each_case("seed", range(12))
@each_case("integrator", ["implicitfast", "rk4"])
def test_a_ball_swings_through_every_pose(seed: int, integrator: str) -> None:
    """Those in which two axes of three hinges would coincide included."""
    _, model, data = simulated(ball(), integrator=integrator)
    model.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_ENERGY)
    data.qvel[:] = np.random.default_rng(seed).normal(size=3) * 4.0
    mujoco.mj_forward(model, data)
    before = float(data.energy.sum())
    mujoco.mj_step(model, data, nstep=5000)
    assert all(warning.number == 0 for warning in data.warning)
    if integrator == "rk4":
        assert float(data.energy.sum()) == pytest.approx(before, abs=1e-3)


@pytest.mark.parametrize("child_first", [False, True])
def test_angles_of_a_ball_are_those_of_the_plan(child_first: bool) -> None:
    random = np.random.default_rng(5)
    joint = Joint(
        path="/ball", type="spherical", body0=0 if child_first else WORLD_BODY,
        body1=WORLD_BODY if child_first else 0, dofs=tuple(Dof(axis=axis) for axis in ROTATIONS),
        body0_from_joint=random_pose(random), body1_from_joint=random_pose(random),
    )  # fmt: skip
    compiled, model, data = simulated(
        PhysicsScene(bodies=(Body(path="/b", inertial=UNIT, joints=(0,)),), joints=(joint,))
    )
    balls, step = compiled.balls, 1e-6
    for _ in range(CONFIGURATIONS):
        angles = random.uniform((-3.1, -1.5, -3.1), (3.1, 1.5, 3.1))
        rates = random.normal(size=3)
        balls.write_angles(data.qpos, angles[None])
        balls.write_rates(data.qvel, angles[None], rates[None])
        assert balls.angles(data.qpos)[0] == pytest.approx(angles, abs=1e-9)
        assert balls.rates(data.qpos, data.qvel)[0] == pytest.approx(rates, abs=1e-9)
        # MuJoCo's own integration of the velocity says the same.
        moved = data.qpos.copy()
        mujoco.mj_integratePos(model, moved, data.qvel, step)
        assert balls.angles(moved)[0] == pytest.approx(angles + step * rates, abs=1e-9)


_BALL = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.002" integrator="implicitfast" cone="elliptic" impratio="10"><flag multiccd="disable"/></option>
  <worldbody>
    <body name="body">
      <joint name="ball" type="ball" {attributes}/>
      <inertial pos="0.1 0.2 0.5" mass="1.5" diaginertia="0.02 0.03 0.01"/>
    </body>
  </worldbody>
</mujoco>
"""
"""A body on a ball joint, as MuJoCo's own users write it."""


@each_case(
    "passive",
    [
        {"damping": 0.3},
        {"armature": 0.05},
        {"friction": 0.4},
        {"stiffness": 6.0},
        {"damping": 0.1, "armature": 0.02, "friction": 0.1, "stiffness": 3.0},
    ],
)
@each_case("child_first", [False, True])
def test_a_ball_with_what_acts_alike_in_all_directions_swings_as_mujocos(
    passive: dict[str, float], child_first: bool
) -> None:
    dofs = tuple(Dof(axis=axis, **passive) for axis in ROTATIONS)
    frame = Pose((0.0, 0.0, 0.0), random_pose(np.random.default_rng(6)).rotation)
    joint = Joint(
        path="/ball", type="spherical", body0=0 if child_first else WORLD_BODY,
        body1=WORLD_BODY if child_first else 0, dofs=dofs, body0_from_joint=frame, body1_from_joint=frame,
    )  # fmt: skip
    inertial = Inertial(mass=1.5, center=(0.1, 0.2, 0.5), diagonal=(0.02, 0.03, 0.01))
    compiled, model, data = simulated(
        PhysicsScene(bodies=(Body(path="/body", inertial=inertial, joints=(0,)),), joints=(joint,))
    )
    assert len(compiled.balls) == 1
    attributes = " ".join(
        f'{ {"friction": "frictionloss"}.get(name, name) }="{value}"' for name, value in passive.items()
    )
    oracle = mujoco.MjModel.from_xml_string(_BALL.format(attributes=attributes))
    oracle_data = mujoco.MjData(oracle)
    for each, other in ((model, data), (oracle, oracle_data)):
        other.qvel[:] = [1.0, -2.0, 3.0]
        mujoco.mj_step(each, other, nstep=500)
        mujoco.mj_forward(each, other)
    assert body_pose(compiled, data, 0)[3:] == pytest.approx(xyzw(oracle_data.body("body").xquat), abs=1e-6)
    assert data.qfrc_passive == pytest.approx(oracle_data.qfrc_passive, abs=1e-6)


@each_case(
    "others",
    [{"damping": 0.2}, {"armature": 0.1}, {"friction": 0.1}, {"stiffness": 1.0}],
)
def test_what_acts_about_one_axis_only_makes_three_hinges_of_a_ball(others: dict[str, float]) -> None:
    dofs = (Dof(axis="rotX", **others), Dof(axis="rotY"), Dof(axis="rotZ"))
    joint = Joint(path="/ball", type="spherical", body0=WORLD_BODY, body1=0, dofs=dofs)
    scene = PhysicsScene(bodies=(Body(path="/body", inertial=UNIT, joints=(0,)),), joints=(joint,))
    compiled, model, _ = simulated(scene)
    assert len(compiled.balls) == 0
    assert model.njnt == 3


def test_a_spring_that_rests_elsewhere_makes_three_hinges_of_a_ball() -> None:
    dofs = tuple(Dof(axis=axis, stiffness=2.0, spring_position=0.1) for axis in ROTATIONS)
    joint = Joint(path="/ball", type="spherical", body0=WORLD_BODY, body1=0, dofs=dofs)
    scene = PhysicsScene(bodies=(Body(path="/body", inertial=UNIT, joints=(0,)),), joints=(joint,))
    compiled, model, _ = simulated(scene)
    assert len(compiled.balls) == 0
    assert model.qpos_spring.tolist() == [0.1, 0.1, 0.1]


def test_a_joint_that_starts_outside_its_limits_starts_at_them() -> None:
    reports = Reports()
    compiled, model, data = simulated(
        hinged(dof=Dof(axis="rotY", position=0.0, lower=0.8, upper=2.0)), reports
    )
    assert list(reports) == ["mujoco.start"]
    assert "/joint at 0.8 instead of 0" in reports["mujoco.start"]
    assert data.qpos[compiled.qpos_of_dof[0]] == pytest.approx(0.8)
    run(model, data, 0.01)
    assert abs(data.qvel[0]) < 0.2
