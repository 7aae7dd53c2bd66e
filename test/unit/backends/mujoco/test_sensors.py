"""Inertia, forces, contacts, places on earth, fields and noise, against what is solved by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from case_tables import each_case

pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")

from sensor_scenes import GRAVITY, World, at, body, hinge, solid, world

from usd_ros_bridge.backends.async_sensors import SensorNoise
from usd_ros_bridge.backends.mujoco.instruments import to_ecef, to_geodetic
from usd_ros_bridge.model.physics import WORLD_BODY, Box, Dof, Joint, Plane, Sphere
from usd_ros_bridge.model.sensors import (
    BarometerSensor,
    ContactSensor,
    GnssSensor,
    ImuSensor,
    MagnetometerSensor,
    Sensor,
    ThermometerSensor,
    WrenchSensor,
)
from usd_ros_bridge.spatial.pose import IDENTITY_POSE, Pose
from usd_ros_bridge.spatial.transforms import quaternion_conjugate, rotate

UP = np.array([0.0, 0.0, GRAVITY])


def imu(*, on: int = WORLD_BODY, pose: Pose = IDENTITY_POSE, **others: Any) -> ImuSensor:
    return ImuSensor(
        path="/imu", type="sensor_msgs/msg/Imu", rate=200.0, body=on, body_from_sensor=pose, **others
    )


def wrench(*, on: int = WORLD_BODY, pose: Pose = IDENTITY_POSE, **others: Any) -> WrenchSensor:
    return WrenchSensor(
        path="/wrench", type="geometry_msgs/msg/WrenchStamped", rate=100.0, body=on, body_from_sensor=pose, **others
    )  # fmt: skip


def pendulum(*sensors: Sensor, length: float = 0.7, mass: float = 2.0, position: float = 0.0,
             velocity: float = 0.0, child_first: bool = False) -> World:  # fmt: skip
    """Returns a point mass that hangs `length` below the origin by a hinge about Y."""
    joint = hinge(WORLD_BODY, 0, hangs=at(0.0, 0.0, length), position=position, velocity=velocity)
    if child_first:
        joint = Joint(
            path="/hinge", type="revolute", axis="Y", body0=0, body1=WORLD_BODY, body1_from_joint=IDENTITY_POSE,
            body0_from_joint=at(0.0, 0.0, length), dofs=(Dof(axis="rotY", position=-position, velocity=-velocity),),
        )  # fmt: skip
    bob = body("/bob", mass=mass, moment=1e-8, joints=(0,), world_from_body=at(0.0, 0.0, -length))
    return world(*sensors, bodies=(bob,), joints=(joint,))


# --- Imu ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on", [WORLD_BODY, 0])
def test_imu_at_rest_feels_gravity_upwards(on: int) -> None:
    pose = at(0.3, axis="X", turn=0.4)
    plate = body("/plate", joints=(0,))
    bolt = Joint(path="/bolt", type="fixed", body0=WORLD_BODY, body1=0)
    found = world(imu(on=on, pose=pose), bodies=(plate,), joints=(bolt,)).sense("/imu")
    turn = np.array(pose.rotation)
    np.testing.assert_allclose(found["orientation"], turn, atol=1e-12)
    np.testing.assert_allclose(found["angular_velocity"], np.zeros(3), atol=1e-12)
    np.testing.assert_allclose(
        found["linear_acceleration"], rotate(quaternion_conjugate(turn), UP), atol=1e-12
    )


def test_imu_on_a_kinematic_body_is_left_to_the_bridge() -> None:
    moved, fixed = body("/moved", kinematic=True), body("/moved/arm", joints=(0,), parent=0)
    bolt = Joint(path="/bolt", type="fixed", body0=0, body1=1)
    for on in (0, 1):
        there = world(imu(on=on), wrench(on=on), bodies=(moved, fixed), joints=(bolt,))
        assert list(there.measures) == ["/wrench"]


def test_imu_in_free_fall_feels_nothing() -> None:
    there = world(imu(on=0, pose=at(0.2, 0.1)), bodies=(body("/stone"),))
    for seconds in (0.0, 0.25):
        there.run(seconds)
        np.testing.assert_allclose(there.sense("/imu")["linear_acceleration"], np.zeros(3), atol=1e-10)


def test_imu_on_a_turntable_feels_the_way_inwards() -> None:
    speed, radius = 3.0, 0.4
    dof = Dof(axis="rotZ", velocity=speed)
    axle = Joint(path="/axle", type="revolute", axis="Z", body0=WORLD_BODY, body1=0, dofs=(dof,))
    # X of the sensor points inwards.
    there = world(
        imu(on=0, pose=at(radius, turn=np.pi)), bodies=(body("/table", joints=(0,)),), joints=(axle,)
    )
    there.run(0.3)
    found = there.sense("/imu")
    np.testing.assert_allclose(found["angular_velocity"], [0.0, 0.0, speed], atol=1e-9)
    np.testing.assert_allclose(found["linear_acceleration"], [speed**2 * radius, 0.0, GRAVITY], atol=1e-9)


@each_case("seconds", [0.0, 0.2, 0.55])
def test_imu_on_a_pendulum_feels_the_state_of_its_stamp(seconds: float) -> None:
    """A point mass on a rod feels the rod alone: along it, `g cos(angle) + length * rate^2`."""
    there = pendulum(imu(on=0), length=0.7, position=0.9)
    there.run(seconds)
    angle, rate = float(there.simulation.data.qpos[0]), float(there.simulation.data.qvel[0])
    found = there.sense("/imu")
    np.testing.assert_allclose(found["angular_velocity"], [0.0, rate, 0.0], atol=1e-9)
    expected = [0.0, 0.0, GRAVITY * np.cos(angle) + 0.7 * rate**2]
    np.testing.assert_allclose(found["linear_acceleration"], expected, atol=1e-5)


def test_measuring_changes_nothing_that_follows() -> None:
    watched, alone = (pendulum(imu(on=0), wrench(joint=0), position=1.0) for _ in range(2))
    for _ in range(50):
        watched.run(0.01)
        alone.run(0.01)
        watched.sense("/imu")
        watched.sense("/wrench")
    assert watched.simulation.data.qpos.tobytes() == alone.simulation.data.qpos.tobytes()
    assert watched.simulation.data.qvel.tobytes() == alone.simulation.data.qvel.tobytes()


def test_imu_covariances() -> None:
    sensor = imu(
        orientation_covariance=(-1.0, 0.0, 0.0), angular_velocity_covariance=(1.0, 2.0, 3.0),
        linear_acceleration_covariance=(4.0, 5.0, 6.0),
    )  # fmt: skip
    found = world(sensor).sense("/imu")
    assert found["orientation_covariance"].tolist() == [-1.0, *[0.0] * 8]
    assert found["angular_velocity_covariance"].tolist() == [1, 0, 0, 0, 2, 0, 0, 0, 3]
    assert found["linear_acceleration_covariance"].tolist() == [4, 0, 0, 0, 5, 0, 0, 0, 6]


def test_imu_noise_has_the_authored_deviations() -> None:
    sensor = imu(gyro_stddev=0.02, accel_stddev=0.3, orientation_stddev=0.01)
    there = world(sensor)
    rows = []
    for _ in range(600):
        there.run(0.001)
        found = there.sense("/imu")
        assert np.linalg.norm(found["orientation"]) == pytest.approx(1.0, abs=1e-12)
        rows.append(
            [*found["angular_velocity"], *(found["linear_acceleration"] - UP), *(2.0 * found["orientation"][:3])]
        )  # fmt: skip
    errors = np.array(rows).reshape(600, 3, 3)
    deviations = np.array([0.02, 0.3, 0.01])
    np.testing.assert_allclose(errors.std(axis=(0, 2)), deviations, rtol=0.1)
    np.testing.assert_array_less(np.abs(errors.mean(axis=(0, 2))), 5.0 * deviations / np.sqrt(1800))


# --- Wrenches -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("child_first", [False, True])
def test_wrench_of_a_hanging_mass(child_first: bool) -> None:
    """What body1 exerts on body0: the mass pulls down at the world, or the world up at the mass."""
    there = pendulum(wrench(joint=0), mass=2.0, child_first=child_first)
    sign = 1.0 if child_first else -1.0
    np.testing.assert_allclose(
        there.sense("/wrench")["wrench"], [0, 0, sign * 2.0 * GRAVITY, 0, 0, 0], atol=1e-6
    )


def test_wrench_of_a_swinging_mass_is_that_of_the_stamp() -> None:
    mass, length = 2.0, 0.7
    there = pendulum(wrench(joint=0), mass=mass, length=length, position=1.1)
    there.run(0.3)
    angle, rate = float(there.simulation.data.qpos[0]), float(there.simulation.data.qvel[0])
    tension = mass * (GRAVITY * np.cos(angle) + length * rate**2)
    # Turned by `angle` about Y, the rod points along (-sin, 0, -cos).
    expected = tension * np.array([-np.sin(angle), 0.0, -np.cos(angle)])
    found = there.sense("/wrench")["wrench"]
    np.testing.assert_allclose(found[:3], expected, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(found[3:], np.zeros(3), atol=1e-4)


def test_torque_of_a_cantilever_is_about_the_joint() -> None:
    arm, mass = 0.5, 3.0
    bolt = Joint(path="/bolt", type="fixed", body0=WORLD_BODY, body1=0, body0_from_joint=at(1.0, 2.0, 3.0))
    weight = body("/weight", mass=mass, joints=(0,))
    beyond = body("/beyond", mass=mass, parent=0, joints=(1,))
    joined = Joint(path="/join", type="fixed", body0=0, body1=1, body0_from_joint=at(arm))
    there = world(wrench(joint=0), bodies=(weight, beyond), joints=(bolt, joined))
    expected = [0.0, 0.0, -2.0 * mass * GRAVITY, 0.0, arm * mass * GRAVITY, 0.0]
    np.testing.assert_allclose(there.sense("/wrench")["wrench"], expected, atol=1e-9)


def test_wrench_is_in_the_axes_of_the_headers_frame() -> None:
    there = world(
        wrench(joint=0, frame_body=0, body_from_frame=at(5.0, axis="X", turn=np.pi / 2.0)),
        bodies=(body("/weight", mass=1.0, joints=(0,)),),
        joints=(Joint(path="/bolt", type="fixed", body0=WORLD_BODY, body1=0),),
    )
    # Down is -Z of the world, and -Y of a frame that is turned by a quarter about X.
    np.testing.assert_allclose(there.sense("/wrench")["wrench"], [0, -GRAVITY, 0, 0, 0, 0], atol=1e-9)


def resting(*sensors: Sensor, mass: float = 4.0) -> World:
    """Returns a box of half a metre that has come to rest on the ground."""
    there = world(
        *sensors,
        bodies=(body("/box", mass=mass, moment=0.2, world_from_body=at(0.0, 0.0, 0.25)),),
        colliders=(solid("/ground", Plane()), solid("/box/shape", Box((0.25, 0.25, 0.25)), on=0)),
    )
    there.run(1.5)
    return there


def test_contacts_of_a_resting_box_carry_its_weight() -> None:
    found = resting(wrench(on=0, frame_body=0, pose=at(0.1))).sense("/wrench")["wrench"]
    weight = 4.0 * GRAVITY
    np.testing.assert_allclose(found[:3], [0.0, 0.0, weight], rtol=1e-3, atol=1e-2)
    # The ground pushes up 0.1 m behind the sensor: about +Y.
    np.testing.assert_allclose(found[3:], [0.0, 0.1 * weight, 0.0], rtol=1e-2, atol=5e-2)


def test_ground_feels_the_opposite_and_a_flying_box_nothing() -> None:
    bodies = (
        body("/plate", kinematic=True, world_from_body=at(0.0, 0.0, -0.1)),
        body("/ball", mass=2.0, world_from_body=at(0.0, 0.0, 0.1)),
    )
    colliders = (solid("/plate/shape", Box((1.0, 1.0, 0.1)), on=0), solid("/ball/shape", Sphere(0.1), on=1))
    there = world(wrench(on=0), bodies=bodies, colliders=colliders)
    there.run(1.5)
    np.testing.assert_allclose(
        there.sense("/wrench")["wrench"][:3], [0.0, 0.0, -2.0 * GRAVITY], rtol=1e-3, atol=1e-2
    )
    flying = world(wrench(on=0), bodies=(body("/box"),), colliders=(solid("/box/shape", Sphere(0.1), on=0),))
    assert flying.sense("/wrench")["wrench"].tolist() == [0.0] * 6


@each_case(("threshold", "touched"), [(0.0, True), (30.0, True), (50.0, False)])
def test_contact_compares_normal_forces(threshold: float, touched: bool) -> None:
    sensor = ContactSensor(path="/bumper", type="std_msgs/msg/Bool", rate=50.0, body=0, threshold=threshold)
    assert bool(resting(sensor).sense("/bumper")["data"]) is touched


def test_contact_of_a_flying_box() -> None:
    sensor = ContactSensor(path="/bumper", type="std_msgs/msg/Bool", rate=50.0, body=0)
    there = world(sensor, bodies=(body("/box"),), colliders=(solid("/box/shape", Sphere(0.1), on=0),))
    assert not there.sense("/bumper")["data"]


# --- Earth --------------------------------------------------------------------------------------------------------


@each_case("latitude", [-90.0, -89.9999, -45.0, 0.0, 1e-6, 30.0, 60.0, 89.99, 90.0])
@each_case("longitude", [-179.5, 0.0, 11.5, 179.5])
@each_case("altitude", [-400.0, 0.0, 500.0, 9000.0])
def test_geodetic_and_earth_centred_places_are_inverse(
    latitude: float, longitude: float, altitude: float
) -> None:
    x, y, z = to_ecef(latitude, longitude, altitude)
    back = to_geodetic(x, y, z)
    assert np.linalg.norm(to_ecef(*back) - [x, y, z]) < 1e-8
    assert back[0] == pytest.approx(latitude, abs=1e-12)
    assert back[2] == pytest.approx(altitude, abs=1e-8)


def test_axes_of_the_ellipsoid() -> None:
    np.testing.assert_allclose(to_ecef(0.0, 0.0, 0.0), [6378137.0, 0.0, 0.0])
    np.testing.assert_allclose(to_ecef(90.0, 0.0, 0.0), [0.0, 0.0, 6356752.314245], atol=1e-6)


def fix(place: Pose, **others: Any) -> GnssSensor:
    return GnssSensor(
        path="/fix", type="sensor_msgs/msg/NavSatFix", rate=5.0, body_from_sensor=place, latitude=48.1,
        longitude=11.5, altitude=520.0, **others,
    )  # fmt: skip


@pytest.mark.parametrize("heading", [0.0, 0.7])
def test_fix_is_where_the_sensor_is(heading: float) -> None:
    place = np.array([120.0, -340.0, 12.0])
    latitude, longitude, altitude = world(fix(at(*place), heading=heading)).sense("/fix")["position"]
    phi, lam = np.deg2rad(48.1), np.deg2rad(11.5)
    # Columns: east, north, up.
    axes = np.array([
        [-np.sin(lam), -np.sin(phi) * np.cos(lam), np.cos(phi) * np.cos(lam)],
        [np.cos(lam), -np.sin(phi) * np.sin(lam), np.cos(phi) * np.sin(lam)],
        [0.0, np.cos(phi), np.sin(phi)],
    ])  # fmt: skip
    enu = axes.T @ (to_ecef(latitude, longitude, altitude) - to_ecef(48.1, 11.5, 520.0))
    cosine, sine = np.cos(heading), np.sin(heading)
    expected = [cosine * place[0] - sine * place[1], sine * place[0] + cosine * place[1], place[2]]
    np.testing.assert_allclose(enu, expected, atol=1e-7)


def test_fix_at_the_origin_is_the_origin_and_north_is_along_the_meridian() -> None:
    np.testing.assert_allclose(
        world(fix(IDENTITY_POSE)).sense("/fix")["position"], [48.1, 11.5, 520.0], atol=1e-9
    )
    north = world(fix(at(0.0, 1000.0))).sense("/fix")["position"]
    # A degree of latitude is 111,200.6 m there (meridian radius 6,370,867 m + 520 m of altitude).
    sine = np.sin(np.deg2rad(48.1))
    e2 = 0.00669437999014
    radius = 6378137.0 * (1.0 - e2) / (1.0 - e2 * sine**2) ** 1.5 + 520.0
    assert north[0] - 48.1 == pytest.approx(np.rad2deg(1000.0 / radius), rel=1e-6)
    assert north[1] == pytest.approx(11.5, abs=1e-12)


def test_fix_noise_and_covariance_are_east_north_up() -> None:
    sensor = fix(IDENTITY_POSE, noise_stddev=2.0, vertical_stddev=5.0, position_covariance=(4.0, 4.0, 25.0))
    there = world(sensor)
    rows = []
    for _ in range(400):
        there.run(0.001)
        rows.append(there.sense("/fix")["position"])
    spread = np.array(rows).std(axis=0)
    meters = np.array([111_200.0, 111_320.0 * np.cos(np.deg2rad(48.1)), 1.0])
    np.testing.assert_allclose(spread * meters, [2.0, 2.0, 5.0], rtol=0.15)
    assert there.sense("/fix")["position_covariance"].tolist() == [4, 0, 0, 0, 4, 0, 0, 0, 25]


def test_magnetic_field_is_in_the_sensors_axes() -> None:
    sensor = MagnetometerSensor(
        path="/mag", type="sensor_msgs/msg/MagneticField", rate=10.0, field=(0.0, 2e-5, -4e-5),
        body_from_sensor=at(turn=np.pi / 2.0),
    )  # fmt: skip
    np.testing.assert_allclose(world(sensor).sense("/mag")["magnetic_field"], [2e-5, 0.0, -4e-5], atol=1e-18)


@each_case(("height", "pressure"), [(0.0, 101325.0), (1000.0, 89874.6), (5000.0, 54019.9)])
def test_pressure_is_that_of_the_standard_atmosphere(height: float, pressure: float) -> None:
    sensor = BarometerSensor(
        path="/air", type="sensor_msgs/msg/FluidPressure", rate=10.0, altitude=height - 20.0,
        body_from_sensor=at(0.0, 0.0, 20.0),
    )  # fmt: skip
    assert float(world(sensor).sense("/air")["fluid_pressure"]) == pytest.approx(pressure, rel=2e-5)


@each_case(("height", "temperature"), [(0.0, 15.0), (1000.0, 8.5), (11_000.0, -56.5), (15_000.0, -56.5)])
def test_temperature_is_that_of_the_standard_atmosphere(height: float, temperature: float) -> None:
    sensor = ThermometerSensor(
        path="/air", type="sensor_msgs/msg/Temperature", rate=10.0, altitude=height - 20.0,
        body_from_sensor=at(0.0, 0.0, 20.0),
    )  # fmt: skip
    measured = world(sensor).sense("/air")
    assert float(measured["temperature"]) == pytest.approx(temperature)
    assert float(measured["variance"]) == 0.0


def test_a_fixed_temperature_has_noise_and_its_variance() -> None:
    sensor = ThermometerSensor(
        path="/motor", type="sensor_msgs/msg/Temperature", rate=10.0, temperature=60.0, noise_stddev=0.5
    )
    here = world(sensor)
    measured = []
    for _ in range(200):
        here.run(0.1)
        measured.append(float(here.sense("/motor")["temperature"]))
    assert np.mean(measured) == pytest.approx(60.0, abs=0.2)
    assert np.std(measured) == pytest.approx(0.5, rel=0.2)
    assert float(here.sense("/motor")["variance"]) == 0.25


# --- Noise --------------------------------------------------------------------------------------------------------


def test_noise_follows_from_seed_prim_and_stamp_alone() -> None:
    first, again = SensorNoise(7, "/imu"), SensorNoise(7, "/imu")
    for time_ns in (5, 10, 15):
        first.normal(100, time_ns)
    expected = again.normal(9, 10**18)
    np.testing.assert_array_equal(first.normal(9, 10**18), expected)
    for other in (
        SensorNoise(8, "/imu").normal(9, 10**18),
        SensorNoise(7, "/gyro").normal(9, 10**18),
        again.normal(9, 11),
    ):
        assert not np.isclose(other, expected).any()


def test_noise_is_standard_normal_over_stamps() -> None:
    noise = SensorNoise(0, "/a")
    drawn = np.array([noise.normal(5, 1_000_000 * k) for k in range(4000)])
    assert abs(drawn.mean()) < 0.04
    np.testing.assert_allclose(np.corrcoef(drawn.T), np.eye(5), atol=0.08)
    np.testing.assert_allclose(drawn.std(axis=0), np.ones(5), atol=0.06)
    # Neighbours in time have nothing to do with each other either.
    assert abs(np.corrcoef(drawn[:-1, 0], drawn[1:, 0])[0, 1]) < 0.08


def test_a_reset_shows_the_same_noise_again() -> None:
    there = pendulum(imu(on=0, accel_stddev=0.1), position=1.0)
    there.run(0.1)
    before = there.sense("/imu")["linear_acceleration"].tolist()
    there.simulation.reset()
    there.simulation.time_ns = 0
    there.run(0.1)
    assert there.sense("/imu")["linear_acceleration"].tolist() == before
