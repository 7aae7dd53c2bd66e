"""Names and prim paths.

What ROS 2 accepts, how namespaces join, valid and unique names; parents of paths, and the nearest prim of a set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Final

from usd_ros_bridge.errors import MAX_CANDIDATES, nearest, question_about, quoted
from usd_ros_bridge.model.plan import InterfaceKind


def parent_path(path: str) -> str:
    """Return the path of the parent prim, "" for a root prim."""
    return path.rpartition("/")[0]


def prim_name(path: str) -> str:
    """Return the last element of a path."""
    return path.rpartition("/")[2]


def ancestors(path: str) -> Iterator[str]:
    """Yield the paths of all ancestors, nearest first."""
    path = parent_path(path)
    while path:
        yield path
        path = parent_path(path)


def is_below(path: str, ancestor: str) -> bool:
    """Return whether `path` is `ancestor` or a descendant of it."""
    return path == ancestor or path.startswith(ancestor + "/")


def missing_prim(path: str, prims: Collection[str]) -> str:
    """Return what a path that names no prim may stand for, as the start of a remedy; "" if nothing is like it.

    Args:
        path: The path.
        prims: Paths of the prims that exist.
    """
    parent, name = parent_path(path), prim_name(path)
    siblings: dict[str, str] = {}
    namesakes: list[str] = []
    # Names are compared, not paths: those of one parent are alike for their length alone.
    for each in islice(prims, MAX_CANDIDATES):
        if prim_name(each) == name:
            namesakes.append(each)
        elif parent_path(each) == parent:
            siblings[prim_name(each)] = each
    close = nearest(path, namesakes, count=2) or namesakes[:2]
    close = close or [siblings[each] for each in nearest(name, siblings, count=2)]
    if close:
        return f"{question_about(close)} "
    above = next((each for each in ancestors(path) if each in prims), "")
    return f"the nearest prim that exists is {above}; " if above else ""


class Nearest:
    """The nearest prim at or above a path that is in a set. Remembers what it has looked up."""

    def __init__(self, members: Collection[str], *, barriers: Container[str] = ()) -> None:
        """Store the set.

        Args:
            members: Paths to be found.
            barriers: Paths above which the search ends.
        """
        self._members = members
        self._barriers = barriers
        self._known: dict[str, str] = {"": ""}

    def __call__(self, path: str) -> str:
        """Return the nearest member at or above `path`, "" where there is none."""
        known = self._known
        found = known.get(path)
        if found is not None:
            return found
        if path in self._members:
            return path
        walked = []
        current = path
        while True:
            found = known.get(current)
            if found is not None:
                break
            if current in self._members:
                found = current
                walked.append(current)
                break
            walked.append(current)
            if current in self._barriers:
                found = ""
                break
            current = current.rpartition("/")[0]
        for step in walked:
            known[step] = found
        return found

    def above(self, path: str) -> str:
        """Return the nearest member strictly above `path`, "" where there is none."""
        return "" if path in self._barriers else self(parent_path(path))


MAX_NAME = 256
"""Longest text from an asset that is taken for a name."""

MAX_RESOLVED = {"topic": 247, "service": 241, "action": 220}
"""Longest absolute name by kind: rmw's limit for topics (rmw/validate_full_topic_name.h), less what services
(`Request`, `Reply`) and actions (`/_action/send_goal` and its service suffix) append to it."""

MAX_HEIGHT = 64
"""How many prims up to search for an ancestor that distinguishes two equal names."""

_TOKEN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_]*/(msg|srv|action)/[A-Za-z][A-Za-z0-9_]*\Z")
_SHORT_TYPE = re.compile(r"([A-Za-z][A-Za-z0-9_]*)/([A-Za-z][A-Za-z0-9_]*)\Z")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_]")
_NOT_IN_A_FRAME_ID = re.compile(r"[^A-Za-z0-9_.:/-]")
_OF_GEOMETRY = re.compile(
    r"(?<![a-z])(visuals?|collisions?|colliders?|geometry|geometries|geoms?|mesh(es)?|looks|materials?|lights?)(?![a-z])",
    re.IGNORECASE,
)
_INTERFACE_FOLDER = {"topic": "msg", "service": "srv", "action": "action"}


def name_fault(text: str) -> str:
    """Return the fault of an interface name or a namespace segment, "" for none.

    Relative (`scan`, `front/scan`) and absolute (`/scan`) names are valid; `~` and substitutions are not allowed in
    assets (REP 0158 sections 2.1.1 and 2.3).
    """
    if not text:
        return "is empty"
    if len(text) > MAX_NAME:
        return f"is longer than {MAX_NAME} characters"
    if "~" in text or "{" in text or "}" in text:
        return "has a runtime substitution (~ or {})"
    if "//" in text:
        return "has two slashes in a row"
    if text.endswith("/"):
        return "ends with a slash"
    for token in text.removeprefix("/").split("/"):
        if token[0].isdigit():
            return "has a segment that starts with a digit"
        if not _TOKEN.match(token):
            return "has a character other than letters, digits, '_' and '/'"
    return ""


def corrected_name(text: str) -> str:
    """Return a valid interface name or namespace like `text`, "" if nothing of it can be kept."""
    bare = re.sub(r"\{[^{}]*\}|~", "", text[:MAX_NAME])
    tokens = [valid_name(token.strip()) for token in bare.split("/") if token.strip()]
    name = "/".join(tokens)[:MAX_NAME].rstrip("/")
    return f"/{name}" if name and text.startswith("/") else name


def namespace_fault(text: str) -> str:
    """Return the fault of an authored namespace, "" for none. Empty and "/" are valid."""
    return "" if text in ("", "/") else name_fault(text)


def join(namespace: str, name: str) -> str:
    """Return the absolute name of `name` in the absolute `namespace`; an absolute name ignores it."""
    if name.startswith("/"):
        return name
    if not name:
        return namespace
    return f"/{name}" if namespace == "/" else f"{namespace}/{name}"


def resolved_fault(name: str, kind: InterfaceKind) -> str:
    """Return the fault of an absolute name whose parts are valid, "" for none."""
    limit = MAX_RESOLVED[kind]
    return f"resolves to {len(name)} characters; ROS 2 takes {limit}" if len(name) > limit else ""


def type_fault(text: str, kind: InterfaceKind) -> tuple[str, str]:
    """Return the fault of an interface type and a remedy, ("", "") for none."""
    folder = _INTERFACE_FOLDER[kind]
    match = _TYPE.match(text) if len(text) <= MAX_NAME else None
    if match is None:
        short = _SHORT_TYPE.match(text) if len(text) <= MAX_NAME else None
        remedy = f"{short[1]}/{folder}/{short[2]}" if short else f"package/{folder}/Type"
        return f"is not of the form package/{folder}/Type", f"write {remedy}"
    if match[1] != folder:
        return f"is no {kind} type", f"name a type of the form package/{folder}/Type"
    return "", ""


@lru_cache(maxsize=4096)
def valid_name(text: str) -> str:
    """Return `text` as a valid ROS name token: other characters become '_', and a leading digit gets one in front."""
    name = _NOT_IN_A_NAME.sub("_", text)[:MAX_NAME] or "_"
    return f"_{name}" if name[0].isdigit() else name


def valid_frame_id(text: str) -> str:
    """Return `text` as a frame id that tf2 accepts: no leading slash, no white space, no control characters."""
    return _NOT_IN_A_FRAME_ID.sub("_", text)[:MAX_NAME].lstrip("/")


COLON_REMEDY: Final = "use letters, digits and '_', or leave it: tf2 takes it"


def colon_remark(frame_ids: Iterable[str]) -> str:
    """Return a remark on frame ids with a colon, "" if none has one. tf2 takes them, and simulators write them."""
    found = list(dict.fromkeys(each for each in frame_ids if ":" in each))
    if not found:
        return ""
    more = f"; so have {len(found) - 1} more" if len(found) > 1 else ""
    return f"the frame id {quoted(found[0])} has a colon{more}: it is used as authored; some tools refuse it"


def holds_geometry(name: str) -> bool:
    """Return whether a prim of this name holds a link's geometry or what it looks like, and is no link itself."""
    return _OF_GEOMETRY.search(name) is not None


def kept_frame_id(text: str) -> str:
    """Return a name that a converter kept as a frame id: as it is, but for white space and a leading slash."""
    return re.sub(r"\s", "_", text)[:MAX_NAME].lstrip("/")


def is_numbered(name: str, kept: str) -> bool:
    """Return whether a prim is called as it is because a sibling has the name that a converter kept."""
    return re.fullmatch(rf"{re.escape(kept)}_\d+", name) is not None


class UniqueNames:
    """Names that must differ. The first to claim a name keeps it."""

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}
        self._numbers: dict[str, int] = {}

    def owner(self, name: str) -> str | None:
        """Return the path that has claimed `name`, None for none."""
        return self._owners.get(name)

    def claim(self, name: str, path: str) -> bool:
        """Claim `name` for `path`; return whether it was free."""
        return self._owners.setdefault(name, path) == path

    def claim_near(self, name: str, path: str, make_valid: Callable[[str], str] = valid_name) -> str:
        """Claim `name`, else `name` with the nearest distinguishing ancestor's name and '_' in front.

        An ancestor distinguishes where its name differs from that of the owner's ancestor at the same height.
        """
        if self.claim(name, path):
            return name
        theirs = [prim_name(ancestor) for ancestor in islice(ancestors(self._owners[name]), MAX_HEIGHT)]
        for height, ancestor in enumerate(islice(ancestors(path), MAX_HEIGHT)):
            own = prim_name(ancestor)
            if height < len(theirs) and theirs[height] == own:
                continue
            candidate = make_valid(f"{own}_{name}")
            if self.claim(candidate, path):
                return candidate
        number = self._numbers.get(name, 2)
        while not self.claim(f"{name}_{number}", path):
            number += 1
        self._numbers[name] = number + 1
        return f"{name}_{number}"


def robot_name(path: str, asset_names: Mapping[str, str]) -> str:
    """Return the name of a robot in its URDF: `assetInfo.name` of its context prim where it can be shown."""
    name = asset_names.get(path, "")
    return name if name and len(name) <= MAX_NAME and name.isprintable() else prim_name(path)
