"""Which files the converters read and copy: a robot may name any file of the machine.

The readers of the formats that name files are replaced by ones that ask `Guard`. Nothing else is copied, and Linux
refuses other reads where it has Landlock. `converter_child.py` runs this without usd_ros_bridge.
"""

from __future__ import annotations

import ctypes
import ntpath
import os
import re
import struct
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_PR_SET_NO_NEW_PRIVS = 38
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
_LANDLOCK_RULE_PATH_BENEATH = 1
_LANDLOCK_READ_FILE = 1 << 2
_SYSTEM = (
    "/usr",
    "/lib",
    "/lib64",
    "/nix/store",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/dev/null",
    "/dev/urandom",
    "/sys",
)
"""What libraries of the converters read."""

_LIBRARIES = re.compile(rb"(?:^|(?<=[\r\n]))[ \t]*mtllib[ \t]([^\r\n]*)")
"""Lines of an OBJ that name material libraries."""


def is_allowed(path: str | Path, folders: Iterable[str]) -> bool:
    """Return whether a path is a regular file that is below one of the folders, after all symbolic links."""
    try:
        real = Path(os.path.realpath(path, strict=True))
        return real.is_file() and any(Path(folder) in real.parents for folder in folders)
    except (OSError, ValueError):
        return False


class Guard:
    """Decides which files are read, and notes the others."""

    def __init__(self, folders: Sequence[str]) -> None:
        """Take the folders of files that may be read, without symbolic links."""
        self._folders = folders
        self.left_out: dict[tuple[str, str], str] = {}
        """Paths of files that were left out, by the file that names them and what it says."""

    def keeps(self, what: str, path: str | Path, by: str | Path) -> bool:
        """Return whether a file may be read, or is missing, which the converter reports.

        Args:
            what: What names it, such as "texture 'a.png'".
            path: The file.
            by: The file that names it.
        """
        if is_allowed(path, self._folders) or not os.path.exists(path):  # noqa: PTH110 - false for what is no name
            return True
        self.left_out[str(by), what] = str(path)
        return False

    def check_copy(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Refuse to copy a file that may not be read: an audit hook.

        Raises:
            PermissionError: It may not.
        """
        if event == "shutil.copyfile" and not is_allowed(arguments[0], self._folders):
            raise PermissionError(f"{arguments[0]} may not be copied: it is outside the robot's folders")


def restrict_reads(readable: Iterable[str]) -> None:
    """Let this process, also its C++ libraries, read files below paths and those of its Python only, with Landlock."""
    libc = ctypes.CDLL(None)

    def call(number: int, *arguments: Any) -> int:
        longs = [each if isinstance(each, bytes) else ctypes.c_long(each) for each in arguments]
        return int(libc.syscall(ctypes.c_long(number), *longs))

    handled = struct.pack("=Q", _LANDLOCK_READ_FILE)
    rules = call(_LANDLOCK_CREATE_RULESET, handled, len(handled), 0)
    if rules < 0:
        return
    for path in filter(None, (*readable, *sys.path, sys.prefix, sys.base_prefix, *_SYSTEM)):
        with suppress(OSError):
            descriptor = os.open(path, os.O_PATH)
            rule = struct.pack("=Qi", _LANDLOCK_READ_FILE, descriptor)
            call(_LANDLOCK_ADD_RULE, rules, _LANDLOCK_RULE_PATH_BENEATH, rule, 0)
            os.close(descriptor)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    call(_LANDLOCK_RESTRICT_SELF, rules, 0)
    os.close(rules)


def guard_obj(guard: Guard) -> None:
    """Let tinyobjloader read no file itself, and forget textures that may not be read."""
    import tinyobjloader

    class Reader(tinyobjloader.ObjReader):  # type: ignore[misc]
        def ParseFromFile(self, filename: str, option: Any = None) -> bool:  # noqa: N802 - its name there
            text, libraries = read_obj(Path(filename), guard)
            content = b"\n".join(path.read_bytes() for path in libraries)
            self.folder = Path(filename).parent
            self.names_textures = libraries[0] if len(libraries) == 1 else filename
            return bool(self.ParseFromString(text, content, option or tinyobjloader.ObjReaderConfig()))

        def GetMaterials(self) -> list[Any]:  # noqa: N802 - its name there
            materials: list[Any] = super().GetMaterials()
            for material in materials:
                for attribute in (each for each in dir(material) if each.endswith("_texname")):
                    name = getattr(material, attribute)
                    if name and not guard.keeps(f"texture {name!r}", self.folder / name, self.names_textures):
                        setattr(material, attribute, "")
            return materials

    tinyobjloader.ObjReader = Reader


def read_obj(file: Path, guard: Guard) -> tuple[bytes, list[Path]]:
    """Return the content of an OBJ, without lines that would read nothing, and its material libraries."""
    text = file.read_bytes()
    libraries: list[Path] = []
    for line in _LIBRARIES.findall(text):
        names = [re.sub(rb"\\(.)", rb"\1", each) for each in re.findall(rb"(?:\\.|[^ \\])+", line)]
        for name in map(os.fsdecode, names):
            path = Path(f"{file.parent}/{name}")
            if os.path.exists(path) and guard.keeps(f"material library {name!r}", path, file):  # noqa: PTH110 - as above
                libraries += [path] if path not in libraries else []
                break
    return text if libraries else _LIBRARIES.sub(b"", text), libraries


def guard_dae(guard: Guard) -> None:
    """Let pycollada forget images that may not be read."""
    import collada

    class Document(collada.Collada):  # type: ignore[misc]
        def __init__(self, filename: Any, *arguments: Any, **options: Any) -> None:
            super().__init__(filename, *arguments, **options)
            for image in self.images:
                path = Path(filename).parent / (image.path or "")
                if image.path and not guard.keeps(f"image {image.path!r}", path, filename):
                    image.path = ""

    collada.Collada = Document


def guard_mjcf(guard: Guard, parts: Sequence[str]) -> None:
    """Let MuJoCo forget files that may not be read, before it compiles a model.

    Args:
        guard: Decides.
        parts: The MJCF files that a model consists of.
    """
    import mujoco

    read = mujoco.MjSpec.from_file

    def from_file(filename: str, *arguments: Any, **options: Any) -> Any:
        spec = read(filename, *arguments, **options)

        def lost(element: Any, folder: str, files: Iterable[str]) -> bool:
            what = type(element).__name__.removeprefix("Mjs").lower()
            return not all(
                guard.keeps(f"{what} {file!r}", path, filename)
                for file in filter(None, files)
                for path in sorted(
                    mjcf_paths(parts, [folder], ntpath.basename(file) if spec.strippath else file)
                )
            )

        for mesh in [each for each in spec.meshes if lost(each, each.compiler.meshdir, [each.file])]:
            remove_geoms(spec, "meshname", mesh.name)
            spec.delete(mesh)
        for field in [each for each in spec.hfields if lost(each, each.compiler.meshdir, [each.file])]:
            remove_geoms(spec, "hfieldname", field.name)
            spec.delete(field)
        for skin in [each for each in spec.skins if lost(each, each.compiler.meshdir, [each.file])]:
            spec.delete(skin)
        for texture in [
            each
            for each in spec.textures
            if lost(each, each.compiler.texturedir, [each.file, *each.cubefiles])
        ]:
            for material in spec.materials:
                for role, name in enumerate(material.textures):
                    if name == texture.name:
                        material.textures[role] = ""
            spec.delete(texture)
        return spec

    mujoco.MjSpec.from_file = staticmethod(from_file)


def remove_geoms(spec: Any, attribute: str, name: str) -> None:
    """Remove the geoms of a mesh or of a height field."""
    for geom in [each for each in spec.geoms if getattr(each, attribute) == name]:
        spec.delete(geom)


def mjcf_paths(parts: Iterable[str | Path], folders: Iterable[str], name: str) -> set[str]:
    """Return the paths at which MuJoCo may look for a file. It removes `..` itself and takes backslashes for slashes.

    Args:
        parts: The MJCF files that a model consists of.
        folders: Values of `meshdir`, `texturedir` and `assetdir`, "" for none.
        name: As an MJCF has it.
    """
    bases = {str(Path(each).parent) for each in parts}
    if ":" in name or name.startswith("\\"):
        # MuJoCo takes that for an absolute path, Linux does not.
        bases.add("")
    names = (name, name[:1] + name[1:].replace("\\", "/"))
    paths = {os.path.join(base, folder, each) for base in bases for folder in folders for each in names}  # noqa: PTH118
    return paths | {os.path.normpath(each) for each in paths}
