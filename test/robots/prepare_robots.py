"""Converts URDF robots to OpenUSD and writes where pinocchio places their links: the oracle of test/robots.

Run in the conversion environment by tools/test_robots.sh: `python prepare_robots.py build/robots`. Each robot
gets a directory with the converted stage and `oracle.json`; a robot that is up to date is left alone.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np
import pinocchio
import usdex.core
from pxr import Usd
from urdf_usd_converter import Converter

CONFIGURATIONS = 50
SEED = 158
# In place of joint limits that stand for "none" (infinite, or the largest float): radians or metres.
UNLIMITED = 10.0
DISTRIBUTIONS = ("example-robot-data", "newton-usd-schemas", "pin", "urdf-usd-converter", "usd-exchange")
ROBOTS = {
    "panda": "panda_description/urdf/panda.urdf",
    "ur5": "ur_description/urdf/ur5_robot.urdf",
    "solo12": "solo_description/robots/solo12.urdf",
    # Continuous joints and a rotated mount, which the others lack.
    "kinova": "kinova_description/robots/kinova.urdf",
}

# Robots that only the tests of `import` have.
IMPORTED = {
    "tiago": "tiago_description/robots/tiago.urdf",
    "anymal": "anymal_c_simple_description/urdf/anymal.urdf",
}
MJCF_GRIPPER = "robosuite/models/assets/grippers/panda_gripper.xml"


@dataclass(frozen=True)
class Mimic:
    """A URDF <mimic>: position = multiplier * leader + offset."""

    leader: str
    multiplier: float
    offset: float


@dataclass(frozen=True)
class Description:
    """What the oracle needs of a URDF that pinocchio's model does not keep."""

    links: list[str]
    solid_links: list[str]
    moving_links: list[str]
    mimics: dict[str, Mimic]


def example_robot_data() -> Path:
    """The root of the ROS package `example-robot-data` inside its wheel."""
    files = metadata.files("example-robot-data") or []
    manifest = next(
        file for file in files if file.as_posix().endswith("share/example-robot-data/package.xml")
    )
    return Path(str(manifest.locate())).parent


def is_solid(link: ET.Element) -> bool:
    """Whether the link has a mass or a shape: one with neither is a mere frame, no body after conversion."""
    mass = link.find("inertial/mass")
    return any(link.find(shape) is not None for shape in ("visual", "collision")) or (
        mass is not None and float(mass.get("value", "0")) > 0.0
    )


def describe(urdf: Path) -> Description:
    robot = ET.parse(urdf).getroot()
    links = {str(link.get("name")): link for link in robot.findall("link")}
    joints = robot.findall("joint")
    solid = [name for name, link in links.items() if is_solid(link)]
    moving = [joint.find("child").get("link") for joint in joints if joint.get("type") != "fixed"]
    mimics = {
        joint.get("name"): Mimic(
            mimic.get("joint"), float(mimic.get("multiplier", "1")), float(mimic.get("offset", "0"))
        )
        for joint in joints
        if (mimic := joint.find("mimic")) is not None
    }
    return Description(list(links), solid, moving, mimics)


def sample(
    model: pinocchio.Model, mimics: dict[str, Mimic]
) -> Iterator[tuple[dict[str, float], dict[str, float]]]:
    """Yields per configuration the positions of all joints, and those of them that are to be published.

    Every second configuration leaves the mimic joints out, so that both ways to know their position are
    compared: the published value, which goes before the rule, and the rule. The published order of names is
    shuffled: a JointState message is read by name.
    """
    generator = np.random.default_rng(SEED)
    for index in range(CONFIGURATIONS):
        positions = {}
        for joint_id in range(1, model.njoints):
            joint = model.joints[joint_id]
            if joint.nv != 1:
                raise ValueError(f"joint {model.names[joint_id]} has {joint.nv} degrees of freedom, not one")
            lower, upper = -math.pi, math.pi
            if joint.nq == 1:
                lower = max(float(model.lowerPositionLimit[joint.idx_q]), -UNLIMITED)
                upper = min(float(model.upperPositionLimit[joint.idx_q]), UNLIMITED)
            positions[model.names[joint_id]] = float(generator.uniform(lower, upper))
        published = set(positions)
        if index % 2:
            for name, mimic in mimics.items():
                positions[name] = mimic.multiplier * positions[mimic.leader] + mimic.offset
                published.remove(name)
        order = generator.permutation(sorted(published))
        yield positions, {str(name): positions[name] for name in order}


def limits(model: pinocchio.Model) -> dict[str, list[float] | None]:
    """Lower and upper limit (rad or m) of each joint, None for a continuous one."""
    result: dict[str, list[float] | None] = {}
    for name, joint in zip(model.names[1:], model.joints[1:], strict=True):
        bounds = (model.lowerPositionLimit[joint.idx_q], model.upperPositionLimit[joint.idx_q])
        result[name] = [float(bound) for bound in bounds] if joint.nq == 1 else None
    return result


def configuration_vector(model: pinocchio.Model, positions: dict[str, float]) -> np.ndarray:
    """The positions as pinocchio wants them: a continuous joint is the cosine and the sine of its angle."""
    vector = pinocchio.neutral(model)
    for name, position in positions.items():
        joint = model.joints[model.getJointId(name)]
        vector[joint.idx_q : joint.idx_q + joint.nq] = (
            position if joint.nq == 1 else (math.cos(position), math.sin(position))
        )
    return vector


def oracle(urdf: Path, asset: str) -> dict[str, object]:
    """Returns JSON data: poses are x y z (m) and qx qy qz qw, from the URDF's root link to each link."""
    description = describe(urdf)
    model = pinocchio.buildModelFromUrdf(str(urdf))
    data = model.createData()
    frames = [model.getFrameId(link, pinocchio.FrameType.BODY) for link in description.links]
    configurations = []
    for positions, published in sample(model, description.mimics):
        pinocchio.framesForwardKinematics(model, data, configuration_vector(model, positions))
        configurations.append(
            {
                "positions": positions,
                "published": published,
                "poses": [pinocchio.SE3ToXYZQUAT(data.oMf[frame]).tolist() for frame in frames],
            }
        )
    return {
        "asset": asset,
        "links": description.links,
        "solid_links": description.solid_links,
        "moving_links": description.moving_links,
        "limits": limits(model),
        "configurations": configurations,
    }


def fingerprint(urdf: Path) -> str:
    """Changes whenever the converted robot or its oracle would."""
    versions = [f"{name}=={metadata.version(name)}" for name in DISTRIBUTIONS]
    parts = (Path(__file__).read_bytes(), urdf.read_bytes(), " ".join(versions).encode())
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def prepare(name: str, urdf: Path, package: Path, output: Path) -> None:
    stamp = fingerprint(urdf)
    target = output / name
    if (target / "stamp").is_file() and (target / "stamp").read_text(encoding="utf-8") == stamp:
        return
    print(f"test-robots: converting {name}", file=sys.stderr)
    partial = output / f".{name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    converter = Converter(ros_packages=[{"name": "example-robot-data", "path": str(package)}])
    asset = Path(converter.convert(str(urdf), str(partial)).path)
    stage = Usd.Stage.Open(str(asset))
    content = oracle(urdf, asset.name) | {"default_prim": stage.GetDefaultPrim().GetName()}
    (partial / "oracle.json").write_text(json.dumps(content), encoding="utf-8")
    (partial / "stamp").write_text(stamp, encoding="utf-8")
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)


def write_sources(package: Path, output: Path) -> None:
    """Write where the robots' own files are, for the tests of `import`, which runs in the bridge's environment."""
    gripper = next(
        file for file in metadata.files("robosuite") or [] if file.as_posix().endswith(MJCF_GRIPPER)
    )
    paths = {name: str(package / "robots" / urdf) for name, urdf in (ROBOTS | IMPORTED).items()}
    paths["panda_gripper"] = str(gripper.locate())
    output.mkdir(parents=True, exist_ok=True)
    (output / "sources.json").write_text(json.dumps(paths), encoding="utf-8")


def main() -> None:
    # Skipped line sets in meshes and the like are no concern of kinematics.
    usdex.core.activateDiagnosticsDelegate()
    usdex.core.setDiagnosticsLevel(usdex.core.DiagnosticsLevel.eError)
    package = example_robot_data()
    write_sources(package, Path(sys.argv[1]))
    for name, urdf in ROBOTS.items():
        prepare(name, package / "robots" / urdf, package, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
