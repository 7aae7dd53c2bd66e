"""Import robots as they are, drive, turn and grip in the mujoco backend, and compare with the commands and the truth.

    python test/robots/robot_trials.py FOLDER [--list FILE] [--only NAME] [--output DIRECTORY] [--backend-option K=V]

FOLDER has the checkouts of a list of robots (public_robots.yaml beside this file: folder and file, arguments of its
xacro). Each robot is imported with the defaults of `usd_ros_bridge import`, or opened if it is USD. In
simulated time, in this process, it drives straight for 3 s, turns half a turn, opens and closes its gripper by action
goals, and then gets random commands for 60 s. The result is a table in Markdown; the status is 1 if a limit is missed
that the list does not give a reason for.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import yaml

from usd_ros_bridge import BridgeOptions, BridgePlan, load_plan
from usd_ros_bridge.backends.mujoco.backend import MujocoBackend
from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.model.message_types import JOINT_STATE, ODOMETRY, PARALLEL_GRIPPER_COMMAND, TWIST
from usd_ros_bridge.model.plan import DofPlan
from usd_ros_bridge.testing.lockstep_bridge import LockstepBridge
from usd_ros_bridge.testing.ros_observer import RosObserver

LIST = Path(__file__).with_name("public_robots.yaml")
LIMITS = {"speed": 0.05, "straight": 0.01, "turn": 0.03}
"""Shares: top speed to command, odometry to truth of a straight way, and of half a turn."""
UPRIGHT = 5.0
"""deg: more is no longer upright."""
GRIP_ERROR = 0.02
"""Share of the stroke by which a finger may miss its goal."""
STRAIGHT_S, RANDOM_S, SETTLE_S, GOAL_S = 3.0, 60.0, 1.0, 20.0
COMMAND_S = 0.5
"""Distance of random commands, s."""
SEED = 158


@dataclass(frozen=True, kw_only=True)
class Robot:
    """A robot of a list.

    Attributes:
        name: For the table.
        file: URDF, xacro, MJCF or USD, relative to the folder of the list's robots.
        repository: Where it is from.
        revision: Of the repository.
        arguments: Of the xacro.
        packages: Directories of ROS packages by name, relative to the folder.
        speed: m/s, of the straight drive.
        turn: rad/s.
        traits: What it is, for the table.
        misses: Reasons by limit that it cannot hold: friction of the real thing, not of the simulation.
    """

    name: str
    file: str
    repository: str = ""
    revision: str = ""
    arguments: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    speed: float = 0.3
    turn: float = 1.0
    traits: str = ""
    misses: Mapping[str, str] = field(default_factory=dict)


@dataclass(kw_only=True)
class Trial:
    """What a robot did.

    Attributes:
        mass: kg.
        speed: Share by which the speed at the end of the straight drive misses the command.
        peak: Greatest speed as a share of the command.
        straight: Share by which odometry misses the true way.
        turn: Share by which odometry misses the true turn.
        turned: Share of the commanded turn that was made.
        tilt: Greatest tilt while it drives and turns, deg.
        rise: How far the base rises above its rest, mm.
        grip: Greatest miss of a finger's goal, as a share of its stroke.
        goals: Goals that ended, of those that were sent.
        diverged: What went wrong, "" for nothing.
    """

    mass: float = math.nan
    speed: float = math.nan
    peak: float = math.nan
    straight: float = math.nan
    turn: float = math.nan
    turned: float = math.nan
    tilt: float = 0.0
    rise: float = 0.0
    grip: float = math.nan
    goals: tuple[int, int] = (0, 0)
    diverged: str = ""

    def missed(self) -> dict[str, str]:
        """Return the limits that are missed, each with the number. What was not tried is not missed."""
        found = {
            name: f"{value:+.1%}"
            for name, limit in LIMITS.items()
            if not math.isnan(value := getattr(self, name)) and not abs(value) <= limit
        }
        if math.isnan(self.speed) and not self.goals[1]:
            found["tried"] = "it neither drives nor grips"
        if not self.tilt <= UPRIGHT:
            found["upright"] = f"{self.tilt:.0f} deg"
        if self.goals[0] < self.goals[1]:
            found["goals"] = f"{self.goals[0]} of {self.goals[1]}"
        if not math.isnan(self.grip) and not self.grip <= GRIP_ERROR:
            found["grip"] = f"{self.grip:.1%}"
        if self.diverged:
            found["diverged"] = self.diverged
        return found


# --- Import -------------------------------------------------------------------------------------------------------


def import_robot(robot: Robot, folder: Path, output: Path) -> Path:
    """Import a robot as a user would, with the defaults. Return the layer; USD is opened as it is.

    Raises:
        subprocess.CalledProcessError: It is refused.
    """
    source = folder / robot.file
    if source.suffix.startswith(".usd"):
        return source
    packages = [f"--package={name}={folder / path}" for name, path in robot.packages.items()]
    values = [f"{name}:={value}" for name, value in robot.arguments.items()]
    command = [
        sys.executable,
        "-m",
        "usd_ros_bridge",
        "import",
        source,
        *values,
        *packages,
        "--force",
        "-o",
        output,
    ]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return output / "robot.usda"


# --- Trial --------------------------------------------------------------------------------------------------------


class Course:
    """An open bridge of one robot, and where its base really is: as the simulation has it, not as the robot reckons.

    Attributes:
        plan: The robot's plan, with one robot.
        bridge: Open.
        robot: The plan's.
        result: Filled by the parts of the trial.
        yaw: How far the base has turned about the vertical, by truth and by odometry, rad; whole turns add up.
        height: Of the base at rest, m.
    """

    def __init__(self, plan: BridgePlan, bridge: LockstepBridge, backend: MujocoBackend) -> None:
        """Store an open bridge."""
        assert plan.physics is not None
        self.plan, self.bridge, self._backend = plan, bridge, backend
        (self.robot,) = plan.robots
        self._base = plan.layout.bodies[self.robot.base_row]
        self.result = Trial(mass=sum(body.inertial.mass for body in plan.physics.bodies if body.robot == 0))
        self.dofs = {dof.row: dof for joint in self.robot.joints for dof in joint.dofs}
        self.yaw = np.zeros(2)
        self.height = 0.0
        self._headings: np.ndarray | None = None
        self._commands = self._topic(TWIST, "subscription")
        self._odometry = self._topic(ODOMETRY, "publisher")
        self.joint_commands = self._topic(JOINT_STATE, "subscription")

    def _topic(self, message: str, role: str) -> str:
        """Return the name of the robot's topic of a type, "" where it has none."""
        return next(
            (t.name for t in self.plan.topics if t.enabled and (t.type, t.role) == (message, role)), ""
        )

    @property
    def drives(self) -> bool:
        """Return whether the robot takes Twist commands and has odometry."""
        return bool(self._commands and self._odometry)

    def pose(self) -> np.ndarray:
        """Return `world_from_base` (7,)."""
        return np.asarray(self._backend.entity_state(self._base).pose)

    def speed(self) -> float:
        """Return the speed of the base over the ground, m/s."""
        return float(np.linalg.norm(self._backend.entity_state(self._base).twist[:2]))

    def tilt(self) -> float:
        """Return the angle of the base's Z axis to the vertical, deg."""
        x, y = self.pose()[3:5]
        return math.degrees(math.acos(max(-1.0, min(1.0, 1.0 - 2.0 * (x * x + y * y)))))

    def places(self) -> np.ndarray:
        """Return where the base is in the plane, (2, 2): by truth and by odometry, m."""
        reckoned = self.bridge.last(self._odometry).pose.pose.position
        return np.array([self.pose()[:2], (reckoned.x, reckoned.y)])

    def held_dofs(self) -> list[DofPlan]:
        """Return what follows position commands: degrees of freedom with a stiff drive, mimic joints left out."""
        assert self.plan.physics is not None
        return [
            self.dofs[dof.row]
            for joint in self.plan.physics.joints
            for dof in joint.dofs
            if dof.row in self.dofs and dof.mimic is None and dof.drive is not None and dof.drive.stiffness
        ]

    def positions(self) -> dict[str, float]:
        """Return the positions of the joints by name, rad or m."""
        message = self.bridge.last(self._topic(JOINT_STATE, "publisher"))
        return dict(zip(message.name, message.position, strict=True))

    def drive(self, seconds: float, *, linear: float = 0.0, angular: float = 0.0) -> Iterator[float]:
        """Let time pass with a command on cmd_vel. Yield the time after each tick, s; tilt, rise and yaw are kept."""
        end, sent = self.bridge.time + seconds - 1e-9, -1.0
        while self.bridge.time < end:
            if self.bridge.time >= sent + 0.1 - 1e-9:
                self.bridge.send(self._commands, {"linear": {"x": linear}, "angular": {"z": angular}})
                sent = self.bridge.time
            self.bridge.step()
            self._keep()
            yield self.bridge.time

    def _keep(self) -> None:
        self.result.tilt = max(self.result.tilt, self.tilt())
        self.result.rise = max(self.result.rise, 1e3 * (float(self.pose()[2]) - self.height))
        q = self.bridge.last(self._odometry).pose.pose.orientation
        headings = np.array([heading(self.pose()[3:]), heading((q.x, q.y, q.z, q.w))])
        if self._headings is not None:
            self.yaw += (headings - self._headings + math.pi) % (2.0 * math.pi) - math.pi
        self._headings = headings


def heading(rotation: Sequence[float]) -> float:
    x, y, z, w = rotation
    return math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))


def exhaust(steps: Iterable[object]) -> None:
    for _ in steps:
        pass


def drive_straight(course: Course, speed: float) -> None:
    """Drive for 3 s and stop. The speed is that of the last second; odometry and truth are compared at rest."""
    start, begin = course.places(), course.bridge.time
    peak, late = 0.0, (0.0, course.pose())
    for time in course.drive(STRAIGHT_S, linear=speed):
        peak = max(peak, course.speed())
        if time <= begin + STRAIGHT_S - 1.0 + 1e-9:
            late = (time, course.pose())
    way = float(np.linalg.norm((course.pose() - late[1])[:2]))
    course.result.speed = way / (course.bridge.time - late[0]) / speed - 1.0
    course.result.peak = peak / speed
    exhaust(course.drive(SETTLE_S + speed))
    true, reckoned = np.linalg.norm(course.places() - start, axis=1)
    course.result.straight = float(reckoned / true) - 1.0


def turn(course: Course, rate: float) -> None:
    """Turn half a turn in place, and stop."""
    start = course.yaw.copy()
    exhaust(course.drive(math.pi / rate, angular=rate))
    exhaust(course.drive(SETTLE_S + 0.5 * rate))
    true, reckoned = course.yaw - start
    course.result.turn = float(reckoned / true) - 1.0
    course.result.turned = float(true) / math.pi


def grip(course: Course, observer: RosObserver) -> None:
    """Open and close each gripper by goals. A goal that does not end within 20 s of simulated time has not ended."""
    sent = ended = 0
    worst = math.nan
    for action in course.plan.actions:
        if action.type != PARALLEL_GRIPPER_COMMAND:
            continue
        rows = next(each.dofs for each in course.plan.controllers if action.path in each.interfaces)
        fingers = [course.dofs[row] for row in rows]
        for share in (0.8, 0.2, 0.5):
            targets = {dof.name: _between(dof, share) for dof in fingers}
            end = course.bridge.time + GOAL_S

            def advance(end: float = end) -> None:
                if course.bridge.time > end:
                    raise TimeoutError
                course.bridge.step()
                observer.spin_once(0.001)

            sent += 1
            goal = {"command": {"name": list(targets), "position": list(targets.values())}}
            try:
                observer.send_goal(
                    action.name, action.type, goal, feedback=None, timeout=300.0, advance=advance
                )
                ended += 1
            except TimeoutError:
                continue
            course.bridge.run_for(SETTLE_S)
            found = course.positions()
            missed = [abs(found[dof.name] - targets[dof.name]) / _stroke(dof) for dof in fingers]
            # Fingers that follow are where the rule has them.
            for follower in course.dofs.values():
                rule = follower.mimic
                if rule is not None and rule.leader in rows and follower.name in found:
                    wanted = rule.multiplier * found[course.dofs[rule.leader].name] + rule.offset
                    missed.append(abs(found[follower.name] - wanted) / _stroke(follower))
            worst = max([*missed, 0.0 if math.isnan(worst) else worst])
    course.result.goals, course.result.grip = (ended, sent), worst


def _stroke(dof: DofPlan) -> float:
    width = dof.upper - dof.lower
    return width if math.isfinite(width) and width > 0.0 else 1.0


def _between(dof: DofPlan, share: float) -> float:
    return dof.lower + share * _stroke(dof) if math.isfinite(dof.lower) else share


def command_at_random(course: Course, speed: float, rate: float) -> None:
    """Send random commands for a minute: to the base, and to all joints that take them."""
    random = np.random.default_rng(SEED)
    dofs = course.held_dofs() if course.joint_commands else []
    tilt = course.result.tilt, course.result.rise
    course.result.tilt = 0.0
    for _ in range(round(RANDOM_S / COMMAND_S)):
        if dofs:
            wanted = [_between(dof, float(random.uniform(0.0, 1.0))) for dof in dofs]
            course.bridge.send(
                course.joint_commands, {"name": [dof.name for dof in dofs], "position": wanted}
            )
        if course.drives:
            linear, angular = random.uniform((-speed, -rate), (speed, rate))
            exhaust(course.drive(COMMAND_S, linear=float(linear), angular=float(angular)))
        else:
            course.bridge.run_for(COMMAND_S)
        if not np.isfinite(list(course.positions().values())).all():
            course.result.diverged = f"positions are not finite at {course.bridge.time:.1f} s"
            return
    course.result.tilt, course.result.rise = tilt


def try_robot(asset: Path, robot: Robot, *, backend_options: Mapping[str, str] | None = None) -> Trial:
    """Open a robot, and let it drive, turn, grip and follow random commands.

    Args:
        asset: What `import` made, or a USD file.
        robot: With its speeds.
        backend_options: Of the mujoco backend.
    """
    plan = load_plan(asset, physics=True)
    backend = MujocoBackend()
    grips = any(action.type == PARALLEL_GRIPPER_COMMAND for action in plan.actions)
    options = BridgeOptions(backend_options=dict(backend_options or {}))
    with ExitStack() as stack:
        bridge = stack.enter_context(LockstepBridge(plan, backend, options=options, ros=grips))
        course = Course(bridge.plan, bridge, backend)
        bridge.run_for(SETTLE_S)
        course.height = float(course.pose()[2])
        if course.drives:
            drive_straight(course, robot.speed)
            turn(course, robot.turn)
        if grips:
            observer = RosObserver(spinning=False, name="robot_trials")
            stack.callback(observer.close)
            grip(course, observer)
        command_at_random(course, robot.speed, robot.turn)
        faults = [message for kind, message in bridge.warnings if kind.startswith("mujoco.diverged")]
        course.result.diverged = course.result.diverged or (faults[0] if faults else "")
        return course.result


# --- Table --------------------------------------------------------------------------------------------------------

HEADS = (
    "robot", "revision", "traits", "mass", "command", "top speed", "peak", "odometry, straight",
    "odometry, half a turn", "turned", "tilt", "rise", "goals", "grip", "diverged",
)  # fmt: skip


def row(robot: Robot, trial: Trial) -> tuple[str, ...]:
    """Return the cells of a robot. A star marks a limit that is missed, with its reason below the table."""
    missed = trial.missed()

    def cell(text: str, limit: str = "") -> str:
        return "-" if "nan" in text else text + ("*" if limit in missed else "")

    return (
        robot.name,
        f"{robot.repository} {robot.revision[:10]}".strip() or "-",
        robot.traits,
        f"{trial.mass:.3g} kg",
        cell(f"{robot.speed:g} m/s, {robot.turn:g} rad/s" if not math.isnan(trial.speed) else "nan"),
        cell(f"{trial.speed:+.1%}", "speed"),
        cell(f"{trial.peak:.2f}"),
        cell(f"{trial.straight:+.2%}", "straight"),
        cell(f"{trial.turn:+.1%}", "turn"),
        cell(f"{trial.turned:.2f}"),
        cell(f"{trial.tilt:.1f} deg" if not math.isnan(trial.speed) else "nan", "upright"),
        cell(f"{trial.rise:.1f} mm" if not math.isnan(trial.speed) else "nan"),
        cell(f"{trial.goals[0]} of {trial.goals[1]}" if trial.goals[1] else "nan", "goals"),
        cell(f"{trial.grip:.1%}", "grip"),
        cell("yes" if trial.diverged else "no", "diverged"),
    )


def table(results: Sequence[tuple[Robot, Trial]]) -> str:
    """Return the results in Markdown, with the reasons for what is missed."""
    lines = [HEADS, ("---",) * len(HEADS), *(row(robot, trial) for robot, trial in results)]
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    for robot, trial in results:
        for limit, value in trial.missed().items():
            text += f"\n- {robot.name}, {limit} {value}: {robot.misses.get(limit, 'MISSED')}"
    return text


def read_list(file: Path) -> list[Robot]:
    """Return the robots of a list."""
    return [Robot(**each) for each in yaml.safe_load(file.read_text(encoding="utf-8"))]


def main() -> int:
    """Run the command line of this script."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--list", type=Path, default=LIST)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--output", type=Path, help="keep what was imported")
    parser.add_argument("--backend-option", action="append", default=[])
    arguments = parser.parse_args()
    options = dict(each.split("=", 1) for each in arguments.backend_option)
    results, unexplained = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        output = arguments.output or Path(scratch)
        output.mkdir(parents=True, exist_ok=True)
        for robot in read_list(arguments.list):
            if arguments.only and robot.name not in arguments.only:
                continue
            try:
                directory = output.absolute() / robot.name.replace(" ", "_")
                asset = import_robot(robot, arguments.folder.absolute(), directory)
                trial = try_robot(asset, robot, backend_options=options)
            except (subprocess.CalledProcessError, BridgeError, OSError) as error:
                reason = getattr(error, "stderr", "") or str(error)
                print(f"{robot.name}: {reason.strip().splitlines()[-1]}", file=sys.stderr)
                unexplained += 1
                continue
            missed = trial.missed()
            unexplained += sum(limit not in robot.misses for limit in missed)
            results.append((robot, trial))
            print(f"{robot.name}: {missed or 'within all limits'}", file=sys.stderr)
    print(table(results))
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
