"""One asset in the bridge's MuJoCo and in its own engine: states, dynamics and swings in the same coordinates."""

from __future__ import annotations

import copy
import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import mujoco
import numpy as np
from asset_table import ASSETS, ModelDifference, RealAsset
from numpy.typing import NDArray

from usd_ros_bridge import PlanOptions, load_plan
from usd_ros_bridge.backends.mujoco.backend import build_spec
from usd_ros_bridge.backends.mujoco.compiled_model import CompiledModel, compile_model
from usd_ros_bridge.backends.mujoco.spec_builder import SpecBuilder
from usd_ros_bridge.model.physics import WORLD_BODY

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

STATES = 6
SEED = 158
SWING_RANGE = 0.3
"""Share of the joints' ranges at which a swing starts: within the limits."""
_WIDTHS = {
    mujoco.mjtJoint.mjJNT_FREE: (7, 6),
    mujoco.mjtJoint.mjJNT_BALL: (4, 3),
    mujoco.mjtJoint.mjJNT_SLIDE: (1, 1),
    mujoco.mjtJoint.mjJNT_HINGE: (1, 1),
}
"""Lengths of a joint's position and velocity in MuJoCo's vectors."""


@dataclass(frozen=True)
class Dynamics:
    """What a state brings about, in SI units.

    Attributes:
        places: (3,) origin of each link in the world, m, by the link's name.
        mass_matrix: (N, N) over the degrees of freedom that are compared.
        bias: (N,) Coriolis, centrifugal and gravitational forces.
        passive: (N,) forces of dampers, springs and the like.
    """

    places: Mapping[str, Array]
    mass_matrix: Array
    bias: Array
    passive: Array


@dataclass(frozen=True)
class Sample:
    """A state in the bridge's coordinates, and what the oracle says about it."""

    qpos: Array
    qvel: Array
    expected: Dynamics


class BridgeModel:
    """An asset in the bridge's MuJoCo, its actuators and contacts switched off."""

    def __init__(self, stage: Path) -> None:
        self.plan = load_plan(stage, physics=True, plan_options=PlanOptions(massless_bodies="weightless"))
        self.compiled = compile_model(self.build())
        self.model = self.compiled.model
        quieten(self.model)
        self.data = mujoco.MjData(self.model)
        scene = self.compiled.scene
        ids = zip(scene.bodies, self.compiled.body_ids.tolist(), strict=True)
        self.bodies = {self._name(body.path): number for body, number in ids}
        self.joints: dict[str, int] = {}
        """MuJoCo's joints by the name that the original has; free ones by their body's."""
        for number in range(self.model.njnt):
            joint = self.model.joint(number).name
            path = joint.split(":")[0]
            self.joints[self._name(path)] = number

    def build(self) -> SpecBuilder:
        assert self.plan.physics is not None
        return build_spec(self.plan.physics, lambda *_: None)

    def start(self) -> tuple[Array, Array]:
        """Returns positions and velocities at the start."""
        self.compiled.start(self.data)
        return self.data.qpos.copy(), np.zeros(self.model.nv)

    def dynamics(self, sample: Sample, rows: Rows) -> Dynamics:
        """Returns what the bridge's model says about a state, at the degrees of freedom `rows`."""
        self.data.qpos[:], self.data.qvel[:] = sample.qpos, sample.qvel
        names = {name: self.bodies[name] for name in sample.expected.places}
        return dynamics(self.model, self.data, rows, names)

    def _name(self, path: str) -> str:
        assert self.plan.stage is not None
        prim = self.plan.stage.GetPrimAtPath(path)
        return str(prim.GetDisplayName() or prim.GetName())


class Oracle(Protocol):
    """The engine that an asset comes from.

    Attributes:
        rows: Degrees of freedom of the bridge's model that it has, too.
        variants: Which differences it can be asked with.
    """

    rows: Rows
    variants: tuple[str, ...]

    def samples(self, variant: str) -> list[Sample]:
        """Returns states and what the engine says about them, with a choice of the differences."""

    def swing(self, variant: str) -> tuple[Array, Array]:
        """Lets the bridge's model and the engine swing from the same state: for one second, if rounding allows.

        Returns:
            (N,) positions of the degrees of freedom in the bridge and in the engine, rad or m.
        """


def quieten(model: Any) -> None:
    """Switches contacts and actuators off."""
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_ACTUATION)


def dynamics(model: Any, data: Any, rows: Rows, bodies: Mapping[str, int]) -> Dynamics:
    """Returns what a model says about the state that its data is in."""
    mujoco.mj_forward(model, data)
    matrix = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, matrix)
    return Dynamics(
        places={name: data.xpos[number].copy() for name, number in bodies.items()},
        mass_matrix=matrix[np.ix_(rows, rows)],
        bias=data.qfrc_bias[rows].copy(),
        passive=data.qfrc_passive[rows].copy(),
    )


class Pinocchio:
    """What prepare_assets.py wrote about a URDF."""

    def __init__(self, bridge: BridgeModel, content: Mapping[str, Any]) -> None:
        self._bridge = bridge
        self._content = content
        joints = [bridge.joints[name] for name in content["joints"]]
        self._positions = np.array([bridge.model.jnt_qposadr[joint] for joint in joints], dtype=np.intp)
        self.rows = np.array([bridge.model.jnt_dofadr[joint] for joint in joints], dtype=np.intp)
        self.variants = tuple(content["samples"])
        assert sorted(self.rows) == list(range(bridge.model.nv)), "degrees of freedom that the URDF lacks"

    def samples(self, variant: str) -> list[Sample]:
        return [self._sample(content) for content in self._content["samples"][variant]]

    def swing(self, variant: str) -> tuple[Array, Array]:
        assert variant == "corrected", "the swing was written for this variant only"
        model, data = copy.copy(self._bridge.model), self._bridge.data
        swing = self._content["swing"]
        if not swing["damped"]:
            model.dof_damping[:] = 0.0
        # pinocchio has neither limits nor dry friction.
        model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
        model.opt.integrator, model.opt.timestep = int(mujoco.mjtIntegrator.mjINT_RK4), swing["step"]
        data.qpos[:], data.qvel[:] = self._bridge.start()
        data.qpos[self._positions] = swing["start"]
        for _ in range(swing["steps"]):
            mujoco.mj_step(model, data)
        return data.qpos[self._positions].copy(), np.array(swing["end"])

    def _sample(self, content: Mapping[str, Any]) -> Sample:
        qpos, qvel = self._bridge.start()
        qpos[self._positions], qvel[self.rows] = content["positions"], content["velocities"]
        places = dict(zip(self._content["links"], np.array(content["places"]), strict=True))
        return Sample(
            qpos,
            qvel,
            Dynamics(
                # A link without mass and shape is a frame, no body.
                places={name: place for name, place in places.items() if name in self._bridge.bodies},
                mass_matrix=np.array(content["mass_matrix"]),
                bias=np.array(content["bias"]),
                passive=np.array(content["damping_forces"]),
            ),
        )


class OriginalMujoco:
    """MuJoCo on the original MJCF."""

    def __init__(self, bridge: BridgeModel, asset: RealAsset, original: Path) -> None:
        self._bridge = bridge
        differences = [each for each in asset.differences if isinstance(each, ModelDifference)]
        self._differences = {"corrected": differences, "original": []}
        for index in range(len(differences)):
            self._differences[f"without {index}"] = differences[:index] + differences[index + 1 :]
        self.variants = tuple(self._differences)
        self.models = {name: _load(original, chosen) for name, chosen in self._differences.items()}
        self.model = self.models["corrected"]
        self._joints = [
            (number, bridge.joints[self._name(number)])
            for number in range(self.model.njnt)
        ]  # fmt: skip
        assert all(
            self.model.jnt_type[ours] == bridge.model.jnt_type[theirs] for ours, theirs in self._joints
        )
        self.rows, self._rows = self._addresses("dofadr", 1)
        assert sorted(self.rows) == list(range(bridge.model.nv)), "degrees of freedom that the MJCF lacks"
        self._bodies = {
            self.model.body(number).name: number
            for number in range(1, self.model.nbody)
            if self.model.body(number).name in bridge.bodies
        }

    def samples(self, variant: str) -> list[Sample]:
        generator = np.random.default_rng(SEED)
        model = self.models[variant]
        data = mujoco.MjData(model)
        result = []
        for _ in range(STATES):
            qpos, qvel = self._put(model, data, generator, share=1.0)
            qvel[self.rows] = data.qvel[self._rows] = generator.normal(size=len(self._rows))
            result.append(Sample(qpos, qvel, dynamics(model, data, self._rows, self._bodies)))
        return result

    def swing(self, variant: str) -> tuple[Array, Array]:
        model, data = self._bridge.model, self._bridge.data
        original = self.models[variant]
        theirs = mujoco.MjData(original)
        generator = np.random.default_rng(SEED)
        data.qpos[:], data.qvel[:] = self._put(original, theirs, generator, share=SWING_RANGE)
        # Some models have no gravity: at rest, they would stay there.
        theirs.qvel[self._rows] = SWING_RANGE * generator.normal(size=len(self._rows))
        data.qvel[self.rows] = theirs.qvel[self._rows]
        assert model.opt.timestep == original.opt.timestep
        for _ in range(round(1.0 / model.opt.timestep)):
            mujoco.mj_step(model, data)
            mujoco.mj_step(original, theirs)
        ours, expected = self._addresses("qposadr", 0)
        return data.qpos[ours].copy(), theirs.qpos[expected].copy()

    def _name(self, joint: int) -> str:
        """Returns the name of a joint; a free one's body's, for a free body has no joint in USD."""
        if self.model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE:
            return str(self.model.body(int(self.model.jnt_bodyid[joint])).name)
        return str(self.model.joint(joint).name)

    def _addresses(self, kind: str, width: int) -> tuple[Rows, Rows]:
        """Returns the addresses of all joints in the vectors of the bridge's model, and of the original."""
        ours, theirs = [], []
        for original, joint in self._joints:
            length = range(_WIDTHS[mujoco.mjtJoint(self.model.jnt_type[original])][width])
            ours += [getattr(self._bridge.model, f"jnt_{kind}")[joint] + place for place in length]
            theirs += [getattr(self.model, f"jnt_{kind}")[original] + place for place in length]
        return np.array(ours, dtype=np.intp), np.array(theirs, dtype=np.intp)

    def _put(
        self, model: Any, data: Any, generator: np.random.Generator, *, share: float
    ) -> tuple[Array, Array]:
        """Puts the original's data to a random state at rest, and returns the same in the bridge's coordinates."""
        mujoco.mj_resetData(model, data)
        for joint, address in enumerate(model.jnt_qposadr):
            kind = model.jnt_type[joint]
            if kind in (mujoco.mjtJoint.mjJNT_FREE, mujoco.mjtJoint.mjJNT_BALL):
                turn = address + (3 if kind == mujoco.mjtJoint.mjJNT_FREE else 0)
                quaternion = data.qpos[turn : turn + 4] + share * generator.normal(size=4)
                data.qpos[turn : turn + 4] = quaternion / np.linalg.norm(quaternion)
                continue
            lower, upper = -math.pi, math.pi
            if model.jnt_limited[joint]:
                lower, upper = model.jnt_range[joint].clip(-math.pi, math.pi)
            aim = generator.uniform(lower, upper)
            data.qpos[address] += share * (aim - data.qpos[address])
        qpos, qvel = self._bridge.start()
        ours, theirs = self._addresses("qposadr", 0)
        qpos[ours] = data.qpos[theirs]
        return qpos, qvel


def _load(original: Path, differences: list[ModelDifference]) -> Any:
    """Returns the compiled MJCF, its contacts and actuators switched off."""
    model_spec = mujoco.MjSpec.from_file(str(original))
    for difference in differences:
        element = getattr(model_spec, difference.element)(difference.name)
        setattr(element, difference.attribute, difference.value)
    model = model_spec.compile()
    quieten(model)
    return model


@dataclass(frozen=True)
class Pair:
    """An asset in the bridge's MuJoCo and its oracle."""

    name: str
    bridge: BridgeModel
    oracle: Pinocchio | OriginalMujoco


def load_pair(directory: Path, name: str) -> Pair:
    content = json.loads((directory / name / "asset.json").read_text())
    bridge = BridgeModel(directory / name / content["asset"])
    oracle = (
        Pinocchio(bridge, content["oracle"])
        if "oracle" in content
        else OriginalMujoco(bridge, ASSETS[name], Path(content["original"]))
    )
    return Pair(name, bridge, oracle)


def compile_apart(bridge: BridgeModel) -> CompiledModel:
    """Returns the bridge's model with all bodies kept apart that a joint moves against each other.

    Bodies that fixed joints weld are one body for that.
    """
    scene = bridge.compiled.scene
    group = list(range(len(scene.bodies)))
    for joint in scene.joints:
        ends = joint.body0, joint.body1
        if not joint.dofs and joint.type == "fixed" and WORLD_BODY not in ends:
            old, new = group[ends[0]], group[ends[1]]
            group = [new if each == old else each for each in group]
    moving = {
        tuple(sorted((group[joint.body0], group[joint.body1])))
        for joint in scene.joints
        if joint.dofs and WORLD_BODY not in (joint.body0, joint.body1)
    }
    built = bridge.build()
    for first, second in itertools.combinations(range(len(group)), 2):
        if tuple(sorted((group[first], group[second]))) in moving:
            names = scene.bodies[first].path, scene.bodies[second].path
            built.spec.add_exclude(bodyname1=names[0], bodyname2=names[1])
    return compile_model(built)
