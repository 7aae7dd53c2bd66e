"""Robot files: read a URDF or MJCF as XML, and find the faults that a converter would stop at or pass over."""

from __future__ import annotations

import math
import os
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from usd_ros_bridge.errors import AssetError, did_you_mean, quoted, quoted_path
from usd_ros_bridge.importing.allowed_files import (
    AllowedFiles,
    FindPackage,
    outside_fault,
    split_uri,
)
from usd_ros_bridge.importing.drive_limits import drive_limits
from usd_ros_bridge.importing.mjcf_parts import check_parts
from usd_ros_bridge.importing.xml_file import Element, parse_xml
from usd_ros_bridge.model.diagnostics import Diagnostic, DiagnosticCollector
from usd_ros_bridge.model.scaffold import DriveLimits

Kind = Literal["urdf", "mjcf"]
KINDS: dict[str, Kind] = {"robot": "urdf", "mujoco": "mjcf"}
"""Kind of a robot file by its root element."""

JOINT_TYPES = ("continuous", "fixed", "floating", "planar", "prismatic", "revolute")
LIMITED = ("prismatic", "revolute")
TURNED = ("continuous", "planar", "prismatic", "revolute")
"""Types of joints that have an axis."""

MESH_SUFFIXES = (".dae", ".obj", ".stl")
"""Mesh files that urdf-usd-converter reads."""

MOST_MESHES = 5
"""Meshes that are reported one by one."""

_NUMBERS = {
    ("origin", "xyz"): 3,
    ("origin", "rpy"): 3,
    ("axis", "xyz"): 3,
    ("mass", "value"): 1,
    **{("inertia", name): 1 for name in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")},
    **{("limit", name): 1 for name in ("lower", "upper", "effort", "velocity")},
    **{("dynamics", name): 1 for name in ("damping", "friction")},
    **{("mimic", name): 1 for name in ("multiplier", "offset")},
    ("box", "size"): 3,
    ("sphere", "radius"): 1,
    ("cylinder", "radius"): 1,
    ("cylinder", "length"): 1,
    ("mesh", "scale"): 3,
}
"""How many numbers an attribute of a URDF has, by element and attribute."""

_UNBOUNDED = ("limit",)
"""Elements whose numbers may be infinite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotFile:
    """A robot file.

    Attributes:
        path: Absolute path.
        kind: URDF or MJCF.
        name: Name of the robot: `robot name=` or `mujoco model=`, else that of the file.
        root: Name of the link of a URDF that is no joint's child, "" for an MJCF.
        files: Paths of the meshes and textures that a URDF names, by name; "" for those that are left out.
        parts: The MJCF files that an MJCF consists of, itself first.
        folders: Folders of files that may be read, without symbolic links.
        drive_limits: What the URDF's plug-ins of a simulator say about the limits of a differential drive.
        diagnostics: Its faults.
    """

    path: Path
    kind: Kind
    name: str
    root: str = ""
    files: dict[str, str] = field(default_factory=dict)
    parts: tuple[Path, ...] = ()
    folders: tuple[str, ...] = ()
    drive_limits: DriveLimits = field(default_factory=DriveLimits)
    diagnostics: tuple[Diagnostic, ...]


def is_xacro(path: Path) -> bool:
    """Return whether a robot file has anything that xacro expands; false for what is no XML."""
    try:
        root = parse_xml(path.read_bytes(), path.name, DiagnosticCollector())
    except OSError:
        return False
    return root is not None and KINDS.get(root.tag) == "urdf" and _xacro_mark(root) is not None


def read_robot_file(
    path: Path,
    find_package: FindPackage,
    *,
    urdf: Path | None = None,
    packages: Mapping[str, Path] | None = None,
    folders: Sequence[Path] = (),
) -> RobotFile:
    """Read a robot file and check it.

    Args:
        path: URDF or MJCF.
        find_package: Return the directory of a ROS package by its name, None if it is not known.
        urdf: What a xacro was expanded into; None for a file that is read itself. The lines of faults are those of it.
        packages: Directories of the packages that a xacro names, by name.
        folders: More folders of files that may be read, apart from those of the robot and its packages.

    Raises:
        AssetError: There is no such file, or it is neither a URDF nor an MJCF.
    """
    path = path.absolute()
    try:
        content = (urdf or path).read_bytes()
    except OSError as error:
        raise AssetError(f"cannot open {quoted_path(path)}: {error.strerror}") from error
    if content.startswith((b"#usda", b"PXR-USDC", b"PK")):
        raise AssetError(f"{path} is OpenUSD already: usd_ros_bridge run {path}")
    findings = DiagnosticCollector()
    root = parse_xml(content, path.name if urdf is None else f"{path.name} (expanded)", findings)
    if root is None:
        return RobotFile(path=path, kind="urdf", name=path.stem, diagnostics=findings.all())
    kind = KINDS.get(root.tag)
    if kind is None:
        raise AssetError(
            f"{path} is no robot: its root element is <{root.tag[:64]}>; URDF has <robot>, MJCF has <mujoco>"
            + (", and an SDF is not read: convert it to URDF" if root.tag == "sdf" else "")
        )
    allowed = AllowedFiles(path, find_package, packages=packages, folders=folders)
    files: dict[str, str] = {}
    parts: tuple[Path, ...] = ()
    root_link, limits = "", DriveLimits()
    _check_name(root, kind, findings)
    if kind == "mjcf":
        parts = check_parts(path, allowed, findings)
    # What xacro has expanded may have its marks: it writes "$${" as "${".
    elif urdf is not None or not _has_xacro(root, path, findings):
        _check_numbers(root, findings)
        _check_links(root, findings)
        _check_joints(root, findings)
        root_link = _check_tree(root, findings)
        files = _check_files(root, allowed, findings)
        limits = drive_limits(root, lambda element: _parameters(element, allowed, findings))
    name = root.attributes.get("name" if kind == "urdf" else "model") or path.stem
    return RobotFile(
        path=path,
        kind=kind,
        name=name,
        root=root_link,
        files=files,
        parts=parts,
        folders=tuple(allowed.folders),
        drive_limits=limits,
        diagnostics=findings.all(),
    )


def _check_name(root: Element, kind: Kind, findings: DiagnosticCollector) -> None:
    attribute = "name" if kind == "urdf" else "model"
    name = root.attributes.get(attribute, "")
    if kind == "urdf" and not name:
        findings.error("import.name", root.place, "<robot> has no name", 'write <robot name="...">')
    # Converters name files after the robot.
    if "/" in name or "\\" in name or name.startswith("."):
        findings.error(
            "import.name",
            root.place,
            f"the robot's name {quoted(name)} is no file name",
            f"write {attribute}={quoted(_file_name(name))}",
        )


def _file_name(name: str) -> str:
    return (
        "_".join(part for part in name.replace("\\", "/").split("/") if part.strip(".")).lstrip(".")
        or "robot"
    )


def _has_xacro(root: Element, file: Path, findings: DiagnosticCollector) -> bool:
    """Report what xacro has not expanded. Return whether there is any."""
    mark = _xacro_mark(root)
    if mark is None:
        return False
    element, text = mark
    shown = f"<{text}>" if text == element.tag else quoted(text)
    findings.error(
        "import.xacro",
        element.place,
        f"{shown} is xacro's, and not expanded",
        f"expand it and import the result: xacro {shlex.quote(file.name)} > {shlex.quote(_expanded(file))}",
    )
    return True


def _xacro_mark(root: Element) -> tuple[Element, str] | None:
    """Return the first element with something of xacro's, and what it is: the tag, or the value of an attribute."""
    for element in root.walk():
        marks = [element.tag] if element.tag.startswith("xacro:") else []
        marks += [value for value in element.attributes.values() if "${" in value or "$(" in value]
        if marks:
            return element, marks[0]
    return None


def _expanded(file: Path) -> str:
    """Return a name for what xacro makes of a file."""
    stem = file.name.removesuffix(".xacro").removesuffix(".urdf")
    return f"{stem}.urdf" if file.suffix == ".xacro" else f"{stem}_expanded.urdf"


def _check_numbers(root: Element, findings: DiagnosticCollector) -> None:
    for element in root.walk():
        for attribute, text in element.attributes.items():
            count = _NUMBERS.get((element.tag, attribute))
            if count is None or (fault := _number_fault(text, count, element.tag in _UNBOUNDED)) is None:
                continue
            findings.error(
                "import.number",
                element.place,
                f"<{element.tag} {attribute}={quoted(text)}>: {fault}",
                "write one number" if count == 1 else f"write {count} numbers",
            )


def _number_fault(text: str, count: int, unbounded: bool) -> str | None:
    parts = text.split()
    if len(parts) != count:
        return f"{len(parts)} numbers in place of {count}"
    try:
        values = [float(part) for part in parts]
    except ValueError:
        return "not a number"
    if any(math.isnan(value) or (math.isinf(value) and not unbounded) for value in values):
        return "not a finite number"
    return None


def _check_links(root: Element, findings: DiagnosticCollector) -> None:
    links = list(root.each("link"))
    if not links:
        findings.error("import.link", root.place, "the robot has no link", "write at least one <link>")
    for tag in ("link", "joint"):
        seen: dict[str, int] = {}
        for element in root.each(tag):
            name = element.attributes.get("name", "")
            if not name:
                findings.error(
                    "import.name",
                    element.place,
                    f"a <{tag}> has no name",
                    f'write <{tag} name="...">',
                )
            elif name in seen:
                findings.error(
                    "import.name",
                    element.place,
                    f"{tag} {quoted(name)} is also on line {seen[name]}",
                    "give each a name of its own",
                )
            seen.setdefault(name, element.line)


def _check_joints(root: Element, findings: DiagnosticCollector) -> None:
    links = [link.attributes.get("name", "") for link in root.each("link")]
    joints = [joint.attributes.get("name", "") for joint in root.each("joint")]
    for joint in root.each("joint"):
        name = quoted(joint.attributes.get("name", ""))
        _check_joint_type(joint, name, findings)
        for end in ("parent", "child"):
            element = joint.first(end)
            link = element.attributes.get("link", "") if element is not None else ""
            if link not in links or not link:
                fault = f"no link is called {quoted(link)}" if link else f"it has no {end} link"
                findings.error(
                    "import.joint",
                    (element or joint).place,
                    f"joint {name}: {fault}",
                    did_you_mean(link, links) or f'name a link of the file: <{end} link="...">',
                )
        mimic = joint.first("mimic")
        leader = mimic.attributes.get("joint", "") if mimic is not None else None
        if mimic is not None and leader is not None and (leader not in joints or quoted(leader) == name):
            findings.error(
                "import.joint",
                mimic.place,
                f"joint {name} mimics {quoted(leader)}, which is no other joint",
                did_you_mean(leader, [each for each in joints if quoted(each) != name])
                or "name a joint of the file",
            )


def _check_joint_type(joint: Element, name: str, findings: DiagnosticCollector) -> None:
    kind = joint.attributes.get("type", "")
    if kind not in JOINT_TYPES:
        findings.error(
            "import.joint",
            joint.place,
            f"joint {name} has the type {quoted(kind)}" if kind else f"joint {name} has no type",
            did_you_mean(kind, JOINT_TYPES) or f"possible are {', '.join(JOINT_TYPES)}",
        )
    limit, axis = joint.first("limit"), joint.first("axis")
    if kind in LIMITED and limit is None:
        findings.error(
            "import.joint",
            joint.place,
            f"joint {name} is {kind} and has no <limit>: it would be locked",
            'write <limit lower="..." upper="..." effort="..." velocity="...">'
            + (", or the type continuous" if kind == "revolute" else ""),
        )
    elif (
        kind in LIMITED
        and limit is not None
        and _numbers(limit, "lower", 0.0) >= _numbers(limit, "upper", 0.0)
    ):
        findings.warning(
            "import.joint",
            limit.place,
            f"joint {name} cannot move: its lower limit is not below its upper one",
            "write lower and upper" + (", or the type continuous" if kind == "revolute" else ""),
        )
    if kind in TURNED and axis is not None and not any(_vector(axis, "xyz")):
        findings.error(
            "import.joint", axis.place, f"joint {name} has an axis of length 0", 'write xyz="0 0 1"'
        )


def _numbers(element: Element, attribute: str, default: float) -> float:
    """Return a number, the default where it is missing, NaN where it is none."""
    try:
        return float(element.attributes.get(attribute, default))
    except ValueError:
        return math.nan


def _vector(element: Element, attribute: str) -> list[float]:
    """Return numbers, NaN where one is none."""
    try:
        return [float(part) for part in element.attributes.get(attribute, "1 0 0").split()]
    except ValueError:
        return [math.nan]


def _check_tree(root: Element, findings: DiagnosticCollector) -> str:
    """Check that the links are one tree: one root, each other link the child of one joint, no loop. Return the root."""
    links = {link.attributes.get("name", ""): link for link in root.each("link")}
    parents: dict[str, str] = {}
    children: dict[str, list[str]] = defaultdict(list)
    for joint in root.each("joint"):
        parent, child = (
            element.attributes.get("link", "") if (element := joint.first(end)) is not None else ""
            for end in ("parent", "child")
        )
        if not parent or not child or parent not in links or child not in links:
            # Reported with the joint; what follows from it is not.
            return ""
        if child in parents:
            findings.error(
                "import.tree",
                joint.place,
                f"link {quoted(child)} is the child of two joints: it hangs from {quoted(parents[child])} already",
                "a URDF is a tree: remove one of the joints",
            )
            return ""
        parents[child] = parent
        children[parent].append(child)
    roots = [name for name in links if name not in parents]
    if len(roots) > 1:
        findings.error(
            "import.tree",
            links[roots[1]].place,
            f"the robot has {len(roots)} roots: {_some(roots)}",
            f"join them, for example {roots[1]} to {roots[0]} by a fixed joint, or remove the links that nothing uses",
        )
    reached = set(roots)
    pending = list(roots)
    while pending:
        below = children[pending.pop()]
        reached.update(below)
        pending += below
    loop = [name for name in links if name not in reached]
    if loop:
        findings.error(
            "import.tree",
            links[loop[0]].place,
            f"joints make a loop of the links {_some(loop)}",
            "a URDF is a tree: remove a joint of the loop",
        )
    return roots[0] if roots else ""


def _some(names: Sequence[str]) -> str:
    shown = [quoted(name) for name in names[:5]]
    return ", ".join(shown) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _check_files(root: Element, allowed: AllowedFiles, findings: DiagnosticCollector) -> dict[str, str]:
    """Check the files of meshes and textures. Return the path of each by its name, "" for one that is left out."""
    files: dict[str, str] = {}
    unknown: dict[str, list[Element]] = defaultdict(list)
    faults: dict[tuple[str, str], list[tuple[Element, str, str]]] = defaultdict(list)
    for element in root.walk():
        uri = element.attributes.get("filename", "")
        if element.tag not in ("mesh", "texture") or uri in files:
            continue
        path = allowed.locate(uri)
        files[uri] = ""
        if path is None:
            unknown[split_uri(uri)[0]].append(element)
        elif (fault := _mesh_fault(element.tag, uri, path)) is not None:
            faults["unreadable", element.tag].append((element, *fault))
        elif not allowed.allows(path):
            faults["outside", element.tag].append(
                (element, *outside_fault(f"{element.tag} {quoted(uri)}", path))
            )
        else:
            files[uri] = str(path)
    _report_files(faults, findings)
    _report_packages(unknown, findings)
    return files


def _report_files(
    faults: Mapping[tuple[str, str], Sequence[tuple[Element, str, str]]], findings: DiagnosticCollector
) -> None:
    """Report faults of files by kind and element: the first ones each, and how many more there are."""
    for (kind, tag), of_kind in faults.items():
        reported = [(element.place, message, remedy) for element, message, remedy in of_kind[:MOST_MESHES]]
        if more := of_kind[MOST_MESHES:]:
            count = f"{len(more)} more {'meshes' if tag == 'mesh' else 'textures'} from here on"
            what = "are outside, too" if kind == "outside" else "cannot be read"
            reported.append((more[0][0].place, f"{count} {what}", "see the lines before"))
        for each in reported:
            if kind == "outside":
                findings.warning("import.outside", *each)
            # A robot without a texture is grey; without a mesh it is nothing.
            elif tag == "mesh":
                findings.error("import.mesh", *each)
            else:
                findings.warning("import.mesh", *each)


def _report_packages(unknown: Mapping[str, Sequence[Element]], findings: DiagnosticCollector) -> None:
    """Report packages that are not known."""
    for package, elements in unknown.items():
        rest = f" and {len(elements) - 1} more" if len(elements) > 1 else ""
        uri = elements[0].attributes["filename"]
        findings.error(
            "import.package",
            elements[0].place,
            f"package {quoted(package)} is not known, which has {quoted(uri)}{rest}",
            f"name its directory: --package {package}=DIRECTORY, or source the workspace that has it",
        )


def _parameters(element: Element, allowed: AllowedFiles, findings: DiagnosticCollector) -> Path | None:
    """Return the file that `<parameters>` names, None if it is in an unknown package, or may not be read."""
    path = allowed.locate(element.text)
    if path is None or not os.path.isfile(path) or allowed.allows(path):  # noqa: PTH113 - false for what is no name
        return path
    findings.warning(
        "import.outside", element.place, *outside_fault(f"parameter file {quoted(element.text)}", path)
    )
    return None


def _mesh_fault(tag: str, uri: str, target: Path) -> tuple[str, str] | None:
    """Return a message and a remedy, None for a file that can be read."""
    if not uri:
        return f"a <{tag}> has no filename", "write filename"
    scheme = uri.partition("://")[0] if "://" in uri else ""
    if scheme not in ("", "package", "file"):
        return (
            f"{quoted(uri)} is on another machine or of an unknown scheme",
            "name a file, or package://NAME/PATH",
        )
    if tag == "mesh" and target.suffix.lower() not in MESH_SUFFIXES:
        return f"{quoted(uri)} is no mesh that is read", f"convert it to one of {', '.join(MESH_SUFFIXES)}"
    if not os.path.isfile(target):  # noqa: PTH113 - false for what is no name, such as an image in the text
        return (
            f"{quoted(uri)} is missing: there is no {quoted(target)}",
            "restore the file, or correct the path",
        )
    return None
