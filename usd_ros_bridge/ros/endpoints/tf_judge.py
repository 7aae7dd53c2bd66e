"""What is wrong with transforms that were heard: a frame has one parent, and one sender (REP 105). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from usd_ros_bridge.model.diagnostics import quoted

FaultKind = Literal["guard", "parents", "loop", "split"]

_TOLD = 5
MAX_HEARD = 10_000
"""Foreign frames that are remembered while a topic is listened to, and transforms of a message that are judged. Only a
sender that makes up names has more."""
MAX_FAULTS = 100
"""Frames of a fault that are remembered."""
_MAX_SEEN = 100_000
MAX_PARENTS = 5
"""Parents of a foreign frame that are remembered."""
_TURNS = 2
"""A frame may be handed from one parent to another; it goes back and forth where two nodes disagree."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One transform that came by a topic.

    Attributes:
        child: Its child frame id.
        parent: Its parent's.
        stamp_ns: Its stamp, nanoseconds.
    """

    child: str
    parent: str
    stamp_ns: int


@dataclass(slots=True)
class OwnFrames:
    """The frames that the bridge sends in one TF tree: on a topic for what moves and one for what is static.

    Attributes:
        parents: Parent by child frame id, as they are sent.
        before: The same before the last change of the bridge: what was on its way then is no fault.
        roots: The frames that no other is above.
    """

    parents: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, str] = field(default_factory=dict)
    roots: frozenset[str] = frozenset()

    def move_to(self, parents: Mapping[str, str]) -> bool:
        """Sends other frames from here on; returns whether they are others."""
        if parents == self.parents:
            return False
        self.before, self.parents = self.parents, parents
        self.roots = frozenset(parents.values()) - parents.keys()
        return True

    def former(self, child: str, parent: str) -> bool:
        """Returns whether the bridge sent that before its last change."""
        return self.before.get(child) == parent

    def above(self, frame: str, wanted: str) -> bool:
        """Returns whether `wanted` is `frame` or above it."""
        for _ in range(len(self.parents) + 1):
            if frame == wanted:
                return True
            if (parent := self.parents.get(frame)) is None:
                return False
            frame = parent
        return False


@dataclass(slots=True)
class Fault:
    """One thing that is wrong on a topic.

    Attributes:
        kind: What: `guard` (another sender of own frames), `parents` (two parents of a frame), `loop` or `split` (a
            frame is known on two topics that do not meet).
        frames: The frames, each with what is wrong about it.
    """

    kind: FaultKind
    frames: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """The frames, the first of them only where they are many."""
        told = [f"{quoted(frame)[1:-1]}{about}" for frame, about in sorted(self.frames.items())]
        return ", ".join(told[:_TOLD]) + (f" and {len(told) - _TOLD} more" if len(told) > _TOLD else "")


class TfJudge:
    """Judges one topic of a TF tree while it is listened to.

    Attributes:
        own: What the bridge sends in the tree.
        faults: What was found since `begin`, by kind.
        heard_parents: Of frames that are not the bridge's own, whom they were heard below since `begin`.
    """

    def __init__(self, own: OwnFrames, sent: Callable[[int], bool], *, static: bool) -> None:
        """Knows what the bridge sends.

        Args:
            own: The bridge's frames in the tree.
            sent: Tells whether the bridge sent something with that stamp on the topic lately.
            static: Whether it is the topic for what is static.
        """
        self.own = own
        self._sent = sent
        self._static = static
        self._seen: set[tuple[str, int]] = set()
        self._turns: dict[str, int] = {}
        self._last: dict[str, str] = {}
        self.faults: dict[FaultKind, Fault] = {}
        self.heard_parents: dict[str, set[str]] = {}

    def begin(self) -> None:
        """Forgets what was heard."""
        self._seen.clear()
        self._turns.clear()
        self._last.clear()
        self.faults = {}
        self.heard_parents = {}

    def hear(self, transforms: Sequence[Heard], other: TfJudge | None = None) -> set[FaultKind]:
        """Judges a message; returns the kinds of faults that it brought up.

        Args:
            transforms: The message's.
            other: The judge of the tree's other topic.
        """
        found: set[FaultKind] = set()
        sent: dict[int, bool] = {}
        for each in islice(transforms, MAX_HEARD):
            if each.stamp_ns not in sent:
                sent[each.stamp_ns] = self._sent(each.stamp_ns)
            own = self.own.parents.get(each.child)
            if own != each.parent and sent[each.stamp_ns] and self.own.former(each.child, each.parent):
                continue
            if own is None:
                fault = self._foreign_frame(each, other)
            else:
                fault = self._own_frame(each, own, sent=sent[each.stamp_ns])
            if fault is not None:
                kind, about = fault
                frames = self.faults.setdefault(kind, Fault(kind)).frames
                if len(frames) < MAX_FAULTS or each.child in frames:
                    frames.setdefault(each.child, about)
                found.add(kind)
        return found

    def _own_frame(self, heard: Heard, own: str, *, sent: bool) -> tuple[FaultKind, str] | None:
        """Tells by what the bridge sends itself: another parent, a stamp that it never sent, or a stamp twice."""
        child, parent = heard.child, heard.parent
        if parent != own:
            kind: FaultKind = "loop" if self.own.above(parent, child) else "parents"
            return kind, f" ({_shown(own)} and {_shown(parent)})"
        key = (child, heard.stamp_ns)
        again = key in self._seen
        if len(self._seen) < _MAX_SEEN:
            self._seen.add(key)
        return ("guard", "") if again or not sent else None

    def _foreign_frame(self, heard: Heard, other: TfJudge | None) -> tuple[FaultKind, str] | None:
        child, parent = heard.child, heard.parent
        if child not in self.heard_parents and len(self.heard_parents) >= MAX_HEARD:
            return None
        parents = self.heard_parents.setdefault(child, set())
        if parent not in parents and len(parents) < MAX_PARENTS:
            parents.add(parent)
            if self.own.above(parent, child):
                return "loop", f" (below {_shown(parent)})"
        elsewhere = () if other is None else other.heard_parents.get(child, ())
        if any(each != parent for each in elsewhere):
            return "parents", _listed({parent, *elsewhere})
        if len(parents) == 1:
            return None
        last, self._last[child] = self._last.get(child), parent
        self._turns[child] = self._turns.get(child, 0) + (last not in (None, parent))
        return ("parents", _listed(parents)) if self._static or self._turns[child] >= _TURNS else None


def _shown(frame: str) -> str:
    return quoted(frame)[1:-1]


def _listed(parents: Iterable[str]) -> str:
    return f" ({' and '.join(sorted(map(_shown, parents)))})"


def split_frames(
    heard: Iterable[Heard], namespaces: Iterable[str], trees: Mapping[str, OwnFrames]
) -> dict[str, set[str]]:
    """Returns which frames of transforms on the global topics are those of a tree on topics of its own.

    A frame counts where it, or the frame that it hangs from, is one of the tree's. What trees have above them all (the
    world) does not: namespaced robots share it. Nor does what more than one tree might mean.

    Args:
        heard: Transforms that were heard on the global topics.
        namespaces: Of the nodes that send there.
        trees: The trees by namespace.

    Returns:
        Frames by namespace of the tree.
    """
    nodes = tuple(namespaces)
    near = {
        name: own for name, own in trees.items() if any(node == "/" or inside(node, name) for node in nodes)
    }
    found: dict[str, set[str]] = {}
    for each in heard:
        named = [(name, frame) for name, own in near.items() if (frame := _common(own, each)) is not None]
        if len(named) == 1:
            name, frame = named[0]
            found.setdefault(name, set()).add(frame)
    return found


def inside(namespace: str, outer: str) -> bool:
    """Returns whether a namespace is another one or in it."""
    return namespace == outer or namespace.startswith(f"{outer.rstrip('/')}/")


def _common(own: OwnFrames, heard: Heard) -> str | None:
    """Returns the frame that a transform and a tree have in common, None for none."""
    if heard.child in own.parents or heard.child in own.roots:
        return heard.child
    return heard.parent if heard.parent in own.parents else None
