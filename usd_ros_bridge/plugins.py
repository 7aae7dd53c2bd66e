"""Plug-ins: one registry for each kind, of built-in entries and of entry points of other distributions.

An entry point's name is what an asset or a user asks for: an API schema, an interface type, a word of the command line.
Nothing of a plug-in is imported until then. A plug-in that cannot be used disables itself: `Registry.fault` says why in
one line, and whoever asked for it reports that.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, distributions
from typing import Any, Final, Generic, TypeVar, cast

from usd_ros_bridge.errors import BridgeError, error_text, quoted
from usd_ros_bridge.requirements import find_requirement

PROTOCOL_VERSION: Final = 1
"""Version of the protocols of all groups. It changes when plug-ins have to change."""
PROTOCOL_ATTRIBUTE: Final = "USD_ROS_BRIDGE_PROTOCOL"
"""Constant of the module that an entry point names: the version that it was written for. Missing counts as 1."""
GROUP_PREFIX: Final = "usd_ros_bridge."
_OWN: Final = "usd_ros_bridge"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginEntry:
    """One entry of a registry, as lists show it. Nothing was imported for it.

    Attributes:
        group: Group of entry points, without `usd_ros_bridge.`.
        name: What assets and users ask for.
        value: `module:attribute`; "" for a built-in entry that is a value.
        origin: Distribution that brings it; usd_ros_bridge for what is built in.
        version: Version of the distribution, "" if it has none.
        builtin: Whether it is built in.
        conflict: Why another entry of the name has precedence, "" for none.
    """

    group: str
    name: str
    value: str = ""
    origin: str = _OWN
    version: str = ""
    builtin: bool = False
    conflict: str = ""


class Registry(Mapping[str, T], Generic[T]):
    """Built-in entries and those of other distributions, by name. Thread-safe.

    Iteration, `names` and `entries` import nothing. `get` and `[]` import a plug-in when they are first asked for its
    name. A plug-in with a fault is not in the mapping: `get` returns None.
    """

    def __init__(
        self,
        group: str,
        noun: str,
        builtin: Mapping[str, T | str],
        *,
        check: Callable[[object], str],
        spell: Callable[[str], str] = str,
        known: Callable[[str], bool] | None = None,
        defaults: Mapping[str, T] | None = None,
        convert: Callable[[PluginEntry, Any], T | None] | None = None,
    ) -> None:
        """Store the built-in entries.

        Args:
            group: Group of entry points, without `usd_ros_bridge.`.
            noun: What one entry is, for messages: "controller".
            builtin: Built-in entries; a text is `module:attribute` and is imported on first use.
            check: Return what is wrong with a loaded plug-in, "" if nothing is.
            spell: Return the name that is asked for, of an entry point's name: some names may not stand in metadata.
                "" if the entry point is for another registry of the group.
            known: Whether a built-in entry of a name exists elsewhere. None: those of `builtin` only.
            defaults: Built-in entries that plug-ins may replace.
            convert: Return the entry that a checked plug-in stands for, None if it has none for this registry; it may
                raise. None: the plug-in is the entry.
        """
        self.group = group
        self.noun = noun
        self._builtin = builtin
        self._check = check
        self._spell = spell
        self._known = known or builtin.__contains__
        self._defaults: Mapping[str, T] = defaults or {}
        self._convert = convert
        self._loaded: dict[tuple[str, str], T | None] = {}
        self._faults: dict[tuple[str, str], str] = {}
        self._lock = threading.RLock()
        # What was installed when it was last asked for: planning asks for the type of every topic.
        self._seen: tuple[tuple[PluginEntry, ...] | None, Mapping[str, tuple[PluginEntry, ...]]] = (None, {})

    def __getitem__(self, name: str) -> T:
        found: T | None = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def get(self, name: str, default: Any = None) -> Any:
        """Return the entry of a name, imported if necessary; `default` if there is none, or if it has a fault."""
        found = self._builtin.get(name)
        if found is not None and not isinstance(found, str):
            return found
        default = self._defaults.get(name, default)
        if not (name in self._builtin or name in self._foreign()):
            return default
        entry = self.entry(name)
        if entry is None:
            return default
        with self._lock:
            key = (name, entry.value)
            if key not in self._loaded and key not in self._faults:
                self._load(entry)
            found = self._loaded.get(key)
            return default if found is None else found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def names(self) -> tuple[str, ...]:
        """Return the names of all entries, built-in ones first, then sorted. Imports nothing."""
        own = (*self._builtin, *self._defaults)
        return (*own, *sorted(set(self._foreign()) - set(own)))

    def loaded(self) -> dict[str, T]:
        """Return the entries that are in memory, by name: built-in values, and what was asked for. Imports nothing."""
        with self._lock:
            loaded = dict(self._loaded)
        values = {name: each for name, each in self._builtin.items() if not isinstance(each, str)}
        return {**values, **{name: each for (name, _), each in loaded.items() if each is not None}}

    def entry(self, name: str) -> PluginEntry | None:
        """Return the entry that a name stands for, None if there is none. Imports nothing."""
        if name in self._builtin:
            return self._own(name)
        found = self._foreign().get(name)
        if found and not self._known(name):
            return found[0]
        return self._own(name) if name in self._defaults else None

    def entries(self) -> tuple[PluginEntry, ...]:
        """Return all entries, those without precedence included. Imports nothing."""
        foreign = self._foreign()
        found = [
            self._own(name)
            for name in (*self._builtin, *self._defaults)
            if name in self._builtin or name not in foreign
        ]
        for name in sorted(foreign):
            first, *others = foreign[name]
            winner = _OWN if self._known(name) else first.origin
            found += [first] if winner == first.origin else [_losing(first, winner)]
            found += [_losing(other, winner) for other in others]
        return tuple(found)

    def fault(self, name: str) -> str:
        """Return in one line why an entry cannot be used, "" if it can or if there is none. Imports the plug-in."""
        if not (isinstance(self._builtin.get(name), str) or name in self._foreign()):
            return ""
        self.get(name)
        entry = self.entry(name)
        return self._faults.get((name, entry.value), "") if entry else ""

    def failure(self, name: str, error: BaseException) -> str:
        """Return in one line what an entry raised where it is used."""
        entry = self.entry(name)
        origin = f" of {_from(entry)}" if entry is not None else ""
        one_line = " ".join(error_text(error).split())
        return f"{self.noun} {quoted(name)}{origin} failed: {type(error).__name__}: {one_line}"

    def is_foreign(self, name: str) -> bool:
        """Return whether another distribution brings the entry of a name. Imports nothing."""
        entry = self.entry(name)
        return entry is not None and not entry.builtin

    def _own(self, name: str) -> PluginEntry:
        value = self._builtin.get(name)
        return PluginEntry(
            group=self.group,
            name=name,
            value=value if isinstance(value, str) else "",
            builtin=True,
        )

    def _foreign(self) -> Mapping[str, tuple[PluginEntry, ...]]:
        installed = installed_entries(self.group)
        if installed is self._seen[0]:
            return self._seen[1]
        found: dict[str, list[PluginEntry]] = {}
        for each in installed:
            if name := self._spell(each.name):
                found.setdefault(name, []).append(each)
        named = {
            name: tuple(_named(each, name) for each in sorted(entries, key=lambda entry: entry.origin))
            for name, entries in found.items()
        }
        self._seen = installed, named
        return named

    def _load(self, entry: PluginEntry) -> None:
        key = (entry.name, entry.value)
        try:
            loaded = load_entry(entry)
            wrong = self._check(loaded)
            if not wrong and self._convert is not None:
                loaded = self._convert(entry, loaded)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it disables that plug-in alone
            wrong = " ".join(error_text(error).split()) or type(error).__name__
            if not isinstance(error, BridgeError):
                wrong = f"{type(error).__name__}: {wrong}"
        if wrong:
            disabled = f"{quoted(entry.name)} of {_from(entry)} is disabled"
            what = f"{entry.name} cannot be loaded" if entry.builtin else disabled
            self._faults[key] = f"{self.noun} {what}: {wrong}"
        else:
            self._loaded[key] = cast("T | None", loaded)


class _TurnedOutput:
    """Standard output, but for one thread until the end: what that one prints goes to standard error.

    Threads share the stream. Where two import at once, one that has ended may stay in its place: it changes nothing.
    """

    def __init__(self, usual: Any) -> None:
        self.usual = usual
        self._thread = threading.get_ident()

    def end(self) -> None:
        self._thread = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr if threading.get_ident() == self._thread else self.usual, name)


@contextmanager
def _quiet_import() -> Iterator[None]:
    """Print on standard error: standard output is that of the command, as JSON or a document."""
    if sys.stdout is None:
        yield
        return
    turned = _TurnedOutput(sys.stdout)
    sys.stdout = turned
    try:
        yield
    finally:
        turned.end()
        if sys.stdout is turned:
            sys.stdout = turned.usual


def load_entry(entry: PluginEntry) -> object:
    """Import what an entry names.

    Raises:
        BridgeError: It was written for another version of the protocols, a package is missing, or there is no such
            attribute.
        Exception: Whatever the import raises.
    """
    module_name = entry.value.partition(":")[0]
    try:
        with nullcontext() if entry.builtin else _quiet_import():
            module = import_module(module_name)
        _check_version(module, module_name)
        # Within the try: a module may import what an attribute needs when it is asked for it.
        found = _find_attribute(module, entry.value)
    except ImportError as error:
        # A name that a module does not have is an ImportError, too.
        missing = f"no module {error.name}" if isinstance(error, ModuleNotFoundError) else error_text(error)
        requirement = find_requirement(error)
        raise BridgeError(f"{missing}: {requirement.remedy}" if requirement else missing) from error
    return found


def _check_version(module: object, name: str) -> None:
    version = getattr(module, PROTOCOL_ATTRIBUTE, 1)
    if version != PROTOCOL_VERSION:
        raise BridgeError(
            f"{name} is for version {version} of the plug-in protocols, and this bridge has {PROTOCOL_VERSION}"
        )


def _find_attribute(module: object, value: str) -> object:
    found = module
    attribute = value.partition(":")[2]
    for name in attribute.split(".") if attribute else ():
        found = getattr(found, name, None)
        if found is None:
            raise BridgeError(f"{value} does not exist")
    return found


def installed_entries(group: str) -> tuple[PluginEntry, ...]:
    """Return the entry points of other distributions in a group of ours. Imports nothing of them.

    Args:
        group: Name of the group without `usd_ros_bridge.`.
    """
    return _installed(tuple(sys.path)).get(group, ())


def all_installed_entries() -> tuple[PluginEntry, ...]:
    """Return the entry points of other distributions in all groups of ours. Imports nothing of them."""
    groups = _installed(tuple(sys.path))
    return tuple(entry for group in sorted(groups) for entry in groups[group])


@lru_cache(maxsize=4)
def _installed(path: tuple[str, ...]) -> Mapping[str, tuple[PluginEntry, ...]]:
    """Scan the distributions of `sys.path` once: it takes ten milliseconds and more where there are hundreds."""
    del path
    found: dict[str, list[PluginEntry]] = {}
    seen: set[str] = set()
    for distribution in distributions():
        points = [each for each in distribution.entry_points if each.group.startswith(GROUP_PREFIX)]
        if not points:
            continue
        # Only now: the name is read from another file.
        name = str(distribution.metadata["Name"])
        if name in seen or _normalized(name) == _OWN:
            continue
        seen.add(name)
        for point in points:
            found.setdefault(point.group.removeprefix(GROUP_PREFIX), []).append(
                _entry_of(point, name, distribution.version)
            )
    return {group: tuple(entries) for group, entries in found.items()}


def _entry_of(point: EntryPoint, origin: str, version: str) -> PluginEntry:
    return PluginEntry(
        group=point.group.removeprefix(GROUP_PREFIX),
        name=point.name,
        value=point.value.partition("[")[0].strip(),
        origin=origin,
        version=version,
    )


def _normalized(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")


def _named(entry: PluginEntry, name: str) -> PluginEntry:
    return entry if entry.name == name else replace(entry, name=name)


def _losing(entry: PluginEntry, winner: str) -> PluginEntry:
    why = "the name is built in" if winner == _OWN else f"{winner} brings one of this name"
    return replace(entry, conflict=why)


def _from(entry: PluginEntry) -> str:
    return f"{entry.origin} {entry.version}".rstrip()
