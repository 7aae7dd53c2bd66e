"""The assets that `make test-assets` converts and compares with their own engines, and where the two must differ.

Read in both environments: the conversion environment (prepare_assets.py) and the bridge's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class LinkDifference:
    """Mass properties of a URDF's link that the converted asset cannot have.

    Attributes:
        link: Name of the link.
        cause: Why, and what they become.
        center: The centre of mass that the converted asset has, m in the link's frame.
        nearest_moments: Whether its moments of inertia become the nearest ones that a rigid body can have.
    """

    link: str
    cause: str
    center: tuple[float, float, float] | None = None
    nearest_moments: bool = False


@dataclass(frozen=True)
class ModelDifference:
    """An element of an MJCF that the converted asset has otherwise, or not at all.

    Attributes:
        element: Kind of the element as MjSpec has it: `body`, `equality`.
        name: Its name.
        attribute: What differs.
        value: What the converted asset has.
        cause: Why.
    """

    element: str
    name: str
    attribute: str
    value: Any
    cause: str


@dataclass(frozen=True)
class RealAsset:
    """An asset of a wheel.

    Attributes:
        kind: Decides about the converter and the engine that is the oracle.
        distribution: Wheel that has it.
        path: End of its path in the wheel.
        differences: Where the converted asset differs from the original, with the causes: the oracle is changed
            alike, and each of them is shown to be needed.
    """

    kind: Literal["urdf", "mjcf"]
    distribution: str
    path: str
    differences: tuple[LinkDifference, ...] | tuple[ModelDifference, ...] = ()

    def locate(self) -> Path:
        """Returns the original; only where its wheel is installed."""
        files = metadata.files(self.distribution) or []
        return Path(str(next(file for file in files if file.as_posix().endswith(self.path)).locate()))


def _urdf(path: str, *differences: LinkDifference) -> RealAsset:
    return RealAsset("urdf", "example-robot-data", f"example-robot-data/robots/{path}", differences)


def _suite(name: str, *differences: ModelDifference) -> RealAsset:
    return RealAsset("mjcf", "dm_control", f"dm_control/suite/{name}.xml", differences)


def _robosuite(path: str, *differences: ModelDifference) -> RealAsset:
    return RealAsset("mjcf", "robosuite", f"robosuite/models/assets/{path}.xml", differences)


_NO_BODY = "no rigid body has these moments: the greatest is above the sum of the others"
_NO_ORIGIN = (
    "the converter leaves out the centre of an inertial without origin: UsdPhysics takes the colliders'"
)
_NO_TENDON_EQUALITY = "the converter leaves out equalities of tendons, for which mjcPhysics has no schema"
_ROUNDED = "the converter takes the rotation from a matrix in single precision, which rounds small angles"

ASSETS: Mapping[str, RealAsset] = {
    "a1": _urdf("a1_description/urdf/a1.urdf"),
    "laikago": _urdf("laikago_description/urdf/laikago.urdf"),
    "anymal_c": _urdf("anymal_c_simple_description/urdf/anymal.urdf"),
    "ur5": _urdf("ur_description/urdf/ur5_robot.urdf"),
    "baxter": _urdf("baxter_description/urdf/baxter.urdf"),
    "human": _urdf("human_description/robots/human.urdf"),
    "pr2": _urdf(
        "pr2_description/urdf/pr2.urdf",
        *(
            LinkDifference(link, _NO_BODY, nearest_moments=True)
            for link in ("sensor_mount_link", "double_stereo_link")
        ),
    ),
    "allegro": _urdf(
        "allegro_hand_description/urdf/allegro_right_hand.urdf",
        *(
            LinkDifference(f"link_{number}.0", _NO_BODY, nearest_moments=True)
            for number in (3, 7, 11, 15)
        ),
    ),
    "tiago": _urdf(
        "tiago_description/robots/tiago.urdf",
        LinkDifference("arm_tool_link", _NO_ORIGIN, center=(0.001, 0.0, 0.0)),
    ),
    "talos": _urdf("talos_data/robots/talos_full_v2.urdf"),
    "ur5e": _robosuite("robots/ur5e/robot"),
    "panda": _robosuite("robots/panda/robot"),
    "sawyer": _robosuite("robots/sawyer/robot"),
    "panda_gripper": _robosuite("grippers/panda_gripper"),
    "humanoid": _suite(
        "humanoid",
        *(
            ModelDifference("body", name, "quat", (0.999998, 0.0, -0.0020132342, 0.0), _ROUNDED)
            for name in ("lower_waist", "pelvis")
        ),
    ),
    "walker": _suite("walker"),
    "dog": _suite("dog"),
    "cheetah": _suite("cheetah"),
    "finger": _suite("finger"),
    "manipulator": _suite(
        "manipulator",
        ModelDifference("equality", "coupling", "active", False, _NO_TENDON_EQUALITY),
    ),
}  # fmt: skip
