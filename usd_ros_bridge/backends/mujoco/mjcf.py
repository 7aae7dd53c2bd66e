"""The format mjcf: what the backend mujoco simulates, as a file for plain MuJoCo.

MuJoCo writes the document (`MjSpec.to_xml`), with six digits. Numbers are then replaced by those of the specification,
with all digits, so that the loaded model is the compiled one. Meshes become OBJ files beside the document.
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from usd_ros_bridge.backends.mujoco.backend import make_builder
from usd_ros_bridge.backends.mujoco.compiled_model import CompiledModel, compile_model
from usd_ros_bridge.backends.mujoco.mujoco_options import MujocoOptions
from usd_ros_bridge.backends.mujoco.simulation import Simulation
from usd_ros_bridge.backends.mujoco.spec_builder import SpecBuilder
from usd_ros_bridge.backends.mujoco.stiff_drives import solve_drives
from usd_ros_bridge.backends.time_samples import stage_range
from usd_ros_bridge.errors import BackendError, OptionError, quoted
from usd_ros_bridge.model.diagnostics import Diagnostic, DiagnosticCollector, degraded
from usd_ros_bridge.model.exporters import ExportContext, ExportOption
from usd_ros_bridge.model.physics import PhysicsScene, SurfaceVelocity

KEYFRAME: Final = "initial"
"""Name of the keyframe that has the authored positions, velocities and targets."""
_DIGITS: Final = ".6g"
"""How MuJoCo writes numbers."""
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]+")
_ELEMENTS: Final = {
    "geom": "geoms",
    "joint": "joints",
    "freejoint": "joints",
    "site": "sites",
    "camera": "cameras",
    "light": "lights",
    "mesh": "meshes",
    "texture": "textures",
    "material": "materials",
    "pair": "pairs",
}
"""Collections of a specification by the tag of their elements."""
_GROUPS: Final = {"equality": "equalities", "tendon": "tendons", "actuator": "actuators", "sensor": "sensors"}
"""Collections by the tag of the section: the elements have many tags."""
_COMPILED: Final = {
    "MjsLight": ("light", (("dir", "light_dir"),)),
    "MjsTendon": ("tendon", (("springlength", "tendon_lengthspring"),)),
    "MjsJoint": ("joint", (("axis", "jnt_axis"),)),
}
"""What MuJoCo writes from the compiled model, because it normalizes or computes it: kind, attributes and arrays."""


_MASS_OPTIONS: Final = {"total_mass", "bound_mass", "bound_inertia", "balance_inertia"}
"""Attributes of a scene that change masses when the model is compiled."""


class MjcfFormat:
    """What the backend mujoco simulates, as MJCF."""

    suffix = ".xml"
    options = (
        ExportOption(
            name="timestep", kind="double", help="Length of a step, seconds [default: as authored]."
        ),
        ExportOption(name="no_decompose", kind="flag", help="Use the convex hull of each mesh."),
    )

    def write(self, context: ExportContext, stream: BinaryIO) -> Sequence[Diagnostic]:
        """Write the model. See `Exporter`. Without a path, meshes are in the document.

        Raises:
            BackendError: The asset has nothing to simulate, or MuJoCo refuses the model.
            OptionError: The step is not possible.
        """
        given = context.options
        step = given.get("timestep")
        if step is not None and not (math.isfinite(step) and step > 0.0):
            raise OptionError(f"--timestep: {step:g} is no number of seconds above 0")
        # Drives are actuators in a file: joints without mass need the armature for that.
        decompose = not given.get("no_decompose", False)
        options = MujocoOptions(timestep=step, decompose=decompose, stiff_drives=False)
        text, meshes = mjcf_text(context, options, folder=_mesh_folder(context.path))
        if context.path is not None:
            folder = context.path.parent / _mesh_folder(context.path)
            for name, obj in meshes.items():
                context.add_file(folder / name, obj.encode())
        stream.write(text.encode())
        return _lost(context.plan.physics)


def _lost(scene: PhysicsScene | None) -> tuple[Diagnostic, ...]:
    """Return what the backend computes in each step, which a model cannot have."""
    findings = DiagnosticCollector()
    bodies = () if scene is None else scene.bodies
    for name, attribute, instead in (
        ("linear_damping", "physxRigidBody:linearDamping", "the body is not damped in the file"),
        ("angular_damping", "physxRigidBody:angularDamping", "the body is not damped in the file"),
        ("surface", "physxSurfaceVelocity:surfaceVelocity", "the surface is still in the file"),
    ):
        authored = {body.path: found for body in bodies if (found := getattr(body, name))}
        if authored:
            shown = {
                path: found.linear if isinstance(found, SurfaceVelocity) else found
                for path, found in authored.items()
            }
            degraded(findings, shown, attribute, instead)
    return findings.all()


MJCF: Final = MjcfFormat()


def mjcf_text(
    context: ExportContext, options: MujocoOptions, *, folder: str = ""
) -> tuple[str, Mapping[str, str]]:
    """Return a plan's model as MJCF, and its mesh files.

    Args:
        context: The plan, and who gets reports.
        options: Options of the backend.
        folder: Directory of the mesh files, relative to the document's; "": meshes are in the document.

    Returns:
        The document, and the text of each OBJ file by its name.

    Raises:
        BackendError: The asset has nothing to simulate, or MuJoCo refuses the model.
    """
    plan = context.plan
    if plan.physics is None or not plan.physics.bodies:
        raise BackendError(f"{plan.asset} has no rigid body: there is nothing to simulate")
    builder = make_builder(plan, plan.physics, context.report, options)
    compiled = compile_model(builder)
    _report_stiff_drives(compiled, context)
    _write_back(builder, compiled)
    simulation = Simulation(compiled, stage_range(plan, loop=options.loop))
    spec = builder.spec
    spec.option.timestep = simulation.step_ns * 1e-9
    model = spec.compile()
    root = ET.fromstring(spec.to_xml())  # noqa: S314 - MuJoCo wrote it
    _restore_digits(root, spec, model)
    meshes = _write_meshes(root, spec, folder)
    _add_keyframe(root, simulation)
    ET.indent(root)
    return f'<?xml version="1.0"?>\n{ET.tostring(root, encoding="unicode")}\n', meshes


def _report_stiff_drives(compiled: CompiledModel, context: ExportContext) -> None:
    stiff = [drive.joint for drive in solve_drives(compiled) if not drive.actuator_because]
    if stiff:
        others = f" and {len(stiff) - 1} more" if len(stiff) > 1 else ""
        context.report(
            "mjcf.stiff_drives",
            f"stiff drives, {quoted(stiff[0])}{others}: the backend solves them together with contacts, which MJCF "
            "cannot express; plain MuJoCo needs a shorter step",
        )


def _mesh_folder(path: Path | None) -> str:
    return "" if path is None else f"{path.stem}_meshes"


# --- What is changed after the specification is compiled ------------------------------------------------------------


def _write_back(builder: SpecBuilder, compiled: CompiledModel) -> None:
    """Write into the specification what depends on the compiled model: inertia, gains, limits, lengths of rods."""
    spec, model = builder.spec, compiled.model
    if builder.scene.solver.keys() & _MASS_OPTIONS:
        for body in spec.bodies:
            index = model.body(body.name).id
            if body.explicitinertial and index:
                body.mass, body.inertia = model.body_mass[index], model.body_inertia[index]
                body.ipos, body.iquat = model.body_ipos[index], model.body_iquat[index]
                body.fullinertia = np.full(6, np.nan)
    for actuator in spec.actuators:
        index = model.actuator(actuator.name).id
        for field in ("gainprm", "biasprm"):
            values = getattr(model, f"actuator_{field}")[index]
            if not np.array_equal(getattr(actuator, field), values):
                setattr(actuator, field, values)
    for joint in spec.joints:
        index = model.joint(joint.name).id
        if not np.array_equal(joint.solref_limit, model.jnt_solref[index]):
            joint.solref_limit, joint.solimp_limit = model.jnt_solref[index], model.jnt_solimp[index]
    rods = [each for each in spec.equalities if each.name in builder.rod_lengths]
    for equality in rods:
        equality.data = model.eq_data[model.equality(equality.name).id]


def _add_keyframe(root: ET.Element, simulation: Simulation) -> None:
    """Add the initial state: `mj_resetDataKeyframe(model, data, 0)`."""
    data = simulation.data
    key = ET.SubElement(ET.SubElement(root, "keyframe"), "key", name=KEYFRAME)
    for name, field in (
        ("qpos", data.qpos),
        ("qvel", data.qvel),
        ("act", data.act),
        ("ctrl", data.ctrl),
        ("mpos", data.mocap_pos),
        ("mquat", data.mocap_quat),
    ):
        if field.size:
            key.set(name, _written(field.ravel()))


# --- Digits -----------------------------------------------------------------------------------------------------------


def _restore_digits(root: ET.Element, spec: Any, model: Any) -> None:
    """Replace rounded numbers of a document by those that MuJoCo wrote it from.

    Args:
        root: The document.
        spec: Its specification.
        model: The compiled specification: MuJoCo writes some numbers from there, such as lengths of springs.
    """
    for element, source in _sources(root, spec):
        fields = _fields(source)
        kind, arrays = _COMPILED.get(type(source).__name__, ("", ()))
        for name, array in arrays:
            fields[f"{name}~"] = list(getattr(model, array)[getattr(model, kind)(source.name).id])
        for name, text in element.attrib.items():
            exact = _exact(name, text.split(), fields)
            if exact is not None:
                element.set(name, exact)


def _sources(root: ET.Element, spec: Any) -> Iterator[tuple[ET.Element, Any]]:
    """Yield elements of a document with their elements of the specification."""
    for tag, source in (("compiler", spec.compiler), ("option", spec.option)):
        element = root.find(tag)
        if element is not None:
            yield element, source
    for part in root.find("visual") or ():
        source = getattr(spec.visual, "global_" if part.tag == "global" else part.tag, None)
        if source is not None:
            yield part, source
    for body in root.iter("body"):
        source, inertial = spec.body(body.get("name", "")), body.find("inertial")
        if source is not None:
            yield body, source
            if inertial is not None:
                yield inertial, _Inertial(source)
    for tag, kind in _ELEMENTS.items():
        yield from _named(root.iter(tag), getattr(spec, kind))
    for tag, kind in _GROUPS.items():
        yield from _named((each for section in root.findall(tag) for each in section), getattr(spec, kind))


def _named(elements: Iterable[ET.Element], sources: Iterable[Any]) -> Iterator[tuple[ET.Element, Any]]:
    by_name = {each.name: each for each in sources if each.name}
    for element in elements:
        if source := by_name.get(element.get("name", "")):
            yield element, source


class _Inertial:
    """The numbers of an element `inertial`, which are those of its body."""

    def __init__(self, body: Any) -> None:
        self.mass, self.pos, self.quat = body.mass, body.ipos, body.iquat
        self.diaginertia, self.fullinertia = body.inertia, body.fullinertia


def _fields(source: Any) -> dict[str, list[Any]]:
    """Return the numbers of an element by attribute, without underscores: MJCF writes most names so."""
    found: dict[str, list[Any]] = {}
    for name in vars(source) if isinstance(source, _Inertial) else dir(source):
        if name.startswith("_"):
            continue
        value = getattr(source, name)
        if isinstance(value, float):
            found[name.replace("_", "")] = [value]
        elif isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size:
            found[name.replace("_", "")] = list(value.ravel())
    return found


def _exact(name: str, tokens: Sequence[str], fields: Mapping[str, list[Any]]) -> str | None:
    """Return an attribute with all digits; None if it is no numbers, or nothing of the element rounds to them.

    Args:
        name: Name of the attribute.
        tokens: Its numbers, as MuJoCo wrote them.
        fields: Numbers of the element by name, those of the compiled model with a `~`. Where none has the attribute's
            name (`polycoef` is a part of `data`), all are searched.
    """
    try:
        wanted = [format(float(token), _DIGITS) for token in tokens]
    except ValueError:
        return None
    count = len(wanted)
    own = [fields[each] for each in (name, f"{name}~") if each in fields]
    for values in own or fields.values():
        rounded = [format(float(value), _DIGITS) for value in values]
        for start in range(len(values) - count + 1):
            if rounded[start : start + count] == wanted:
                return _written(values[start : start + count])
    return None


def _written(values: Iterable[Any]) -> str:
    """Return numbers with the fewest digits that give the same numbers again."""
    return " ".join(_number(value) for value in values)


def _number(value: Any) -> str:
    # Shortest text of a number of its own precision.
    text = str(np.float32(value)) if isinstance(value, np.float32) else repr(float(value))
    return text.removesuffix(".0")


# --- Meshes -----------------------------------------------------------------------------------------------------------


def _write_meshes(root: ET.Element, spec: Any, folder: str) -> dict[str, str]:
    """Give meshes all digits, in files if there is a folder. Return the text of each file by its name."""
    sources = {each.name: each for each in spec.meshes}
    files: dict[str, str] = {}
    for number, element in enumerate(root.iter("mesh")):
        source = sources.get(element.get("name", ""))
        if source is None:
            continue
        # A cloud of points has no faces, and an OBJ file needs some.
        if not folder or not len(source.userface):
            element.set("vertex", _written(np.asarray(source.uservert, dtype=np.float32)))
            continue
        stem = _UNSAFE.sub("_", source.name).strip("_")[-80:]
        file = f"{number:03d}_{stem}.obj"
        files[file] = _obj_text(source)
        for attribute in ("vertex", "face", "normal", "texcoord"):
            element.attrib.pop(attribute, None)
        element.set("file", file)
    compiler = root.find("compiler")
    if files and compiler is not None:
        compiler.set("meshdir", folder)
    return files


def _obj_text(mesh: Any) -> str:
    points = np.asarray(mesh.uservert, dtype=np.float32).reshape(-1, 3)
    triangles = np.asarray(mesh.userface).reshape(-1, 3) + 1
    lines = [f"v {x} {y} {z}" for x, y, z in points]
    lines += [f"f {a} {b} {c}" for a, b, c in triangles.tolist()]
    return "\n".join([*lines, ""])
