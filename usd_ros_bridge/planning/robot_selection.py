"""Robot selection: which robots of a stage a bridge serves, by the options `contexts` and `shard`.

A selector is a prim path (`/World/robot_1`), a namespace (`fleet/robot_1`, without a leading slash), or a glob of
either: `*`, `?` and `[...]` stand for characters of one segment, `**` for any number of segments. It selects
all robots at or below what it matches. With `!` in front it takes robots out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from usd_ros_bridge.errors import OptionError, did_you_mean, quoted
from usd_ros_bridge.model.path_globs import WILDCARD, glob_pattern
from usd_ros_bridge.model.stage import RobotRoot
from usd_ros_bridge.options import PlanOptions, parse_shard
from usd_ros_bridge.planning import names
from usd_ros_bridge.planning.names import is_below

OUTSIDE: Final = "/"
"""Entry of `contexts` that stands for the interfaces outside of every context."""

MAX_LISTED: Final = 20
"""How many robots the message about an unknown selector lists."""

_EXCLUDE: Final = "!"


@dataclass(frozen=True, slots=True)
class RobotSelection:
    """What a bridge serves.

    Attributes:
        robots: Roots of the robots, in traversal order.
        outside: Serve the interfaces outside of every context.
        found: How many robots `contexts` selects, for all shards together.
    """

    robots: tuple[str, ...]
    outside: bool
    found: int


def selects_robots(options: PlanOptions) -> bool:
    """Return whether options leave anything of a stage to other bridges."""
    return bool(options.contexts or options.shard)


def robot_chooser(options: PlanOptions) -> Callable[[Sequence[RobotRoot]], frozenset[str]] | None:
    """Return what chooses the robots to compose, for `open_stage`; None where all are to be composed."""
    if not selects_robots(options):
        return None
    return lambda robots: frozenset(select_robots(options, robots).robots)


def select_robots(options: PlanOptions, robots: Sequence[RobotRoot]) -> RobotSelection:
    """Select robots of a stage.

    Robots that were spawned are served by the bridge that spawned them, and count in no shard.

    Args:
        options: The options `contexts`, `shard` and `spawned`.
        robots: All robots of the stage, in traversal order.

    Raises:
        OptionError: An entry of `contexts` selects nothing, or `shard` has another form.
    """
    spawned = {robot.path for robot in robots if any(is_below(robot.path, each) for each in options.spawned)}
    selected, outside = _selected(options.contexts, robots)
    mine = [robot.path for robot in robots if robot.path in selected and robot.path not in spawned]
    found = len(mine)
    if shard := parse_shard(options.shard):
        number = shard.number - 1
        mine = mine[number * found // shard.total : (number + 1) * found // shard.total]
        outside = outside and not number
    served = spawned.union(mine)
    return RobotSelection(
        tuple([robot.path for robot in robots if robot.path in served]), outside=outside, found=found
    )


def _selected(entries: Sequence[str], robots: Sequence[RobotRoot]) -> tuple[set[str], bool]:
    """Return the roots that `contexts` selects, and whether it selects what is outside of every context."""
    selectors = [_Selector(entry) for entry in entries]
    matches = _matches(selectors, robots)
    included: set[str] = set()
    excluded: set[str] = set()
    for selector, matched in zip(selectors, matches, strict=True):
        if not matched and selector.text != OUTSIDE:
            raise OptionError(_fault(selector, robots))
        (excluded if selector.excludes else included).update(matched)
    includes = {selector.text for selector in selectors if not selector.excludes}
    outside = OUTSIDE in includes or not includes
    if not includes:
        included = {robot.path for robot in robots}
    if any(selector.excludes and selector.text == OUTSIDE for selector in selectors):
        outside = False
    return included - excluded, outside


class _Selector:
    """An entry of `contexts`."""

    __slots__ = ("excludes", "is_glob", "is_path", "pattern", "text")

    def __init__(self, entry: str) -> None:
        """Take an entry apart.

        Raises:
            OptionError: Its brackets are no range of characters.
        """
        self.excludes = entry.startswith(_EXCLUDE)
        self.text = entry.removeprefix(_EXCLUDE).strip().rstrip("/") or OUTSIDE
        self.is_path = self.text.startswith("/")
        self.is_glob = WILDCARD.search(self.text) is not None
        try:
            self.pattern = glob_pattern(self.text)
        except re.error as error:
            raise OptionError(f"contexts: {quoted(self.text)} is no glob: {error.msg}") from None

    def matches(self, name: str) -> bool:
        """Return whether a path or namespace is at or below what a glob matches."""
        return any(map(self.pattern.fullmatch, _and_above(name)))


def _matches(selectors: Sequence[_Selector], robots: Sequence[RobotRoot]) -> list[list[str]]:
    """Return the roots that each selector matches."""
    by_text: dict[str, list[str]] = {selector.text: [] for selector in selectors if not selector.is_glob}
    globs = [selector for selector in selectors if selector.is_glob]
    by_glob: dict[str, list[str]] = {selector.text: [] for selector in globs}
    for robot in robots:
        namespace = selector_namespace(robot.namespace)
        for text in (*_and_above(robot.path), *_and_above(namespace)):
            if text in by_text:
                by_text[text].append(robot.path)
        for selector in globs:
            if selector.matches(robot.path if selector.is_path else namespace):
                by_glob[selector.text].append(robot.path)
    return [(by_glob if each.is_glob else by_text)[each.text] for each in selectors]


def _and_above(name: str) -> Iterator[str]:
    while name:
        yield name
        name = name.rpartition("/")[0]


def selector_namespace(authored: str) -> str:
    """Return the namespace of a robot as selectors name it: without slashes around it, "" for none that ROS accepts."""
    return "" if names.namespace_fault(authored) else authored.strip("/")


def _fault(selector: _Selector, robots: Sequence[RobotRoot]) -> str:
    """Return that a selector selects nothing, and what exists."""
    text = selector.text
    paths = [robot.path for robot in robots]
    if not selector.is_path:
        namespaces = list(
            dict.fromkeys(filter(None, (selector_namespace(each.namespace) for each in robots)))
        )
        # A slash may be missing.
        path = next((path for path in paths if is_below(path, f"/{text}")), "")
        question = f"did you mean /{text}?" if path else did_you_mean(text, namespaces, count=1)
        what = "no robot has a namespace that matches" if selector.is_glob else "no robot has the namespace"
        return _sentence(what, text, question, namespaces)
    if selector.is_glob:
        return _sentence("no context is at or below what matches", text, "", paths)
    robot = next((path for path in paths if is_below(text, path)), "")
    if robot:
        return (
            f"contexts: {quoted(text)} is inside of the robot {robot}, which is served as a whole: name that"
        )
    return _sentence("no context is at or below", text, did_you_mean(text, paths, count=1), paths)


def _sentence(what: str, text: str, question: str, there: Sequence[str]) -> str:
    hint = f" ({question})" if question else ""
    more = f" and {len(there) - MAX_LISTED} more" if len(there) > MAX_LISTED else ""
    listed = ", ".join(there[:MAX_LISTED]) + more if there else "none"
    return f"contexts: {what} {quoted(text)}{hint}; there is: {listed}"
