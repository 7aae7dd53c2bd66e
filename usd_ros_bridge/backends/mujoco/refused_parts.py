"""Parts that MuJoCo refuses are left out, one report each: a fault of one prim does not cost the whole asset."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import mujoco

if TYPE_CHECKING:
    from usd_ros_bridge.backends.mujoco.built import Built

MOST_LEFT_OUT: Final = 100
"""Parts after which MuJoCo's refusal is that of the asset: each is found by another attempt to compile."""

_ELEMENT: Final = re.compile(r"[Ee]lement name '(.*?)', id")
_KINDS: Final = ("geoms", "joints", "meshes", "tendons", "equalities", "actuators", "pairs")
_REFERENCES: Final = {
    "geoms": ("meshname",),
    "equalities": ("name1", "name2"),
    "actuators": ("target", "refsite", "slidersite"),
    "pairs": ("geomname1", "geomname2"),
}
"""What names other elements, and in which of its attributes."""


def compile_spec(built: Built) -> Any:
    """Compile a specification, without the geoms, joints, tendons and the like that MuJoCo refuses.

    Of a body that MuJoCo refuses the joints are left out: it is held fast to its parent.

    Args:
        built: What was built. What is left out is taken from it.

    Returns:
        The model (MjModel).

    Raises:
        ValueError: MuJoCo refuses it for another reason.
    """
    for _ in range(MOST_LEFT_OUT):
        try:
            return built.spec.compile()
        except (ValueError, mujoco.FatalError) as error:
            said = " ".join(str(error).split())
            match = _ELEMENT.search(said)
            left_out = _leave_out(built, match[1]) if match is not None and match[1] else set()
            if not left_out:
                raise
            parts = ", ".join(sorted(left_out))
            built.report(f"mujoco.refused:{parts}", f"left out, because MuJoCo refuses it: {parts}: {said}")
    return built.spec.compile()


def _leave_out(built: Built, name: str) -> set[str]:
    """Take elements of a name out, and what refers to them. Return their names."""
    names = {name} if _delete(built, {name}) else _delete_joints(built, name)
    last = names
    while referring := _referring(built, last) - names:
        _delete(built, referring)
        names, last = names | referring, referring
    _forget(built, names)
    return names


def _delete(built: Built, names: set[str]) -> bool:
    found = [each for kind in _KINDS for each in getattr(built.spec, kind) if each.name in names]
    for each in found:
        built.spec.delete(each)
    return bool(found)


def _delete_joints(built: Built, name: str) -> set[str]:
    """Delete the joints of a body. Return their names and the body's, nothing where it has none."""
    body = built.spec.body(name)
    joints = [] if body is None else list(body.joints)
    names = {name, *(each.name for each in joints if each.name)} if joints else set()
    for each in joints:
        built.spec.delete(each)
    return names


def _referring(built: Built, names: set[str]) -> set[str]:
    return {
        each.name
        for kind, attributes in _REFERENCES.items()
        for each in getattr(built.spec, kind)
        if any(getattr(each, attribute) in names for attribute in attributes)
    }


def _forget(built: Built, names: set[str]) -> None:
    """Take names out of what was built: an element that is not there has no address."""
    for of_parts in (built.geom_names, built.visual_names):
        of_parts[:] = [[each for each in part if each not in names] for part in of_parts]
    for of_dofs in (built.joint_names, built.free_names, *built.actuator_names.values()):
        of_dofs[:] = ["" if each in names else each for each in of_dofs]
    built.control_names[:] = ["" if each in names else each for each in built.control_names]
    built.balls[:] = [ball for ball in built.balls if ball.name not in names]
    for each in names:
        built.rods.pop(each, None)
