"""Whatever is edited on a stage of several robots: the running graph ends as that of a fresh start.

RANDOM_EDITS says how many edits there are, RANDOM_EDITS_SEED which ones, RANDOM_EDITS_LOG where a log of them goes.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

import rclpy
from edited_stage import edited_stage
from random_edits import RandomEdits
from rclpy.context import Context
from rclpy.signals import SignalHandlerOptions

from effort import examples
from usd_ros_bridge import Bridge, BridgeOptions, load_plan
from usd_ros_bridge.testing.graphs import Graph, graph_of, type_name

pytestmark = pytest.mark.skipif(
    not hasattr(Bridge, "change"), reason="this version of the bridge cannot change"
)
EDITS = int(os.environ.get("RANDOM_EDITS", examples(40)))
SEEDS = tuple(int(each) for each in os.environ.get("RANDOM_EDITS_SEED", "1,2").split(","))
LOG = os.environ.get("RANDOM_EDITS_LOG", "")
SETTLED_S = 20.0
STEP_NS = 10_000_000
CHANGED = "change.refused"
"""What the kinds of reports about changes that were refused begin with."""


@pytest.fixture
def fresh_node(other_domain_id: int) -> Iterator[Any]:
    """A host's node in another domain than the bridge's: what starts fresh there is not seen from here."""
    context = Context()
    rclpy.init(context=context, domain_id=other_domain_id, signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node("observer", context=context, enable_rosout=False, start_parameter_services=False)
    yield node
    node.destroy_node()
    context.try_shutdown()


class Edited:
    """A bridge on a stage that is edited, stepped until it has followed.

    Attributes:
        last: The graph that the last edit that was not refused led to.
        worst_s: The longest time an edit took to be followed.
    """

    def __init__(self, stage: Any, harness: Any, fresh_node: Any) -> None:
        self.stage = stage
        self._harness = harness
        self._fresh_node = fresh_node
        self._reports: list[tuple[str, str]] = []
        self._time = 0
        self.worst_s = 0.0
        self.bridge = Bridge(
            load_plan(stage),
            options=BridgeOptions(handlers=(), publish_description=False),
            node=harness.node,
            report=self._note,
            inform=lambda *_: None,
        )

    def start(self) -> None:
        """Remembers what an open bridge starts with."""
        self._step()
        self.last = graph_of(self.bridge)

    def fresh(self) -> Graph:
        """What a bridge has that is started now."""
        with Bridge(
            load_plan(self.stage),
            options=BridgeOptions(handlers=(), publish_description=False),
            node=self._fresh_node,
            report=lambda *_: None,
            inform=lambda *_: None,
        ) as bridge:
            bridge.step(self._time)
            return graph_of(bridge)

    def refusal(self) -> str:
        """Why a bridge that has a default prim and declared contexts must not follow; "" where it must."""
        prim = self.stage.GetDefaultPrim()
        if not (prim and prim.IsActive() and prim.IsDefined()):
            return "no default prim"
        robots = load_plan(self.stage).robots
        if all(robot.implicit for robot in robots):
            return "no RosContextAPI is left"
        return ""

    def follow(self, wanted: Graph) -> str:
        """Steps until the graph is as wanted; returns in what it differs when the time is over."""
        begin = time.monotonic()
        while True:
            difference = graph_of(self.bridge).difference(wanted)
            spent = time.monotonic() - begin
            if not difference or spent > SETTLED_S:
                self.worst_s = max(self.worst_s, spent)
                return difference
            self._step()

    def refused(self) -> str:
        """Steps until a change was refused, and returns why; "" when the time is over."""
        deadline = time.monotonic() + SETTLED_S
        heard = self._refusals()
        while time.monotonic() < deadline:
            self._step()
            told = [kind for kind, count in self._refusals().items() if count > heard.get(kind, 0)]
            if told:
                return told[0]
        return ""

    def _refusals(self) -> dict[str, int]:
        """How often what was refused; each is shown once, and counted."""
        reports = self.bridge.status().reports
        return {each.message: each.count for each in reports if each.kind.startswith(CHANGED)}

    def publishers(self) -> dict[Any, int]:
        """Which object of rclpy publishes what, by all that makes a publisher the same one."""
        named: dict[tuple[str, str], list[Any]] = {}
        for each in self._harness.node.publishers:
            named.setdefault((each.topic_name, type_name(each.msg_type)), []).append(each)
        planned = [topic for topic in self.bridge.plan.topics if topic.enabled and topic.role == "publisher"]
        return {
            (topic.path, topic.name, topic.type, topic.domain_id, topic.qos): id(
                named[topic.name, topic.type][0]
            )
            for topic in planned
            if len(named.get((topic.name, topic.type), ())) == 1
        }

    def _step(self) -> None:
        self._time += STEP_NS
        self.bridge.step(self._time)
        self._harness.executor.spin_once(timeout_sec=0.0)

    def _note(self, kind: str, message: str) -> None:
        self._reports.append((kind, message))


@pytest.mark.random
@pytest.mark.timeout(max(240, EDITS))
@pytest.mark.parametrize("seed", SEEDS)
def test_the_graph_after_every_edit_is_that_of_a_fresh_start(seed, ros_harness, fresh_node):
    stage = edited_stage()
    edits = RandomEdits(stage, seed)
    edited = Edited(stage, ros_harness, fresh_node)
    outcomes: Counter[str] = Counter()
    with Path(f"{LOG}.{seed}" if LOG else os.devnull).open("w", encoding="utf-8") as log, edited.bridge:
        edited.start()
        for number in range(EDITS):
            outcomes[do_edit(edited, edits, f"seed {seed}, edit {number}", log)] += 1
        print(f"{EDITS} edits: {dict(outcomes)}; each followed within {edited.worst_s:.3f} s", file=log)
    assert outcomes["changed"] > EDITS // 4, outcomes
    if EDITS >= 200:
        assert outcomes["refused"] > 0, outcomes


def do_edit(edited: Edited, edits: RandomEdits, name: str, log: TextIO) -> str:
    """Does one edit, and checks what becomes of it: `changed`, `equal` or `refused`."""
    before, remembered, objects = edited.last, edits.remember(), edited.publishers()
    done = edits.edit()
    told = f"{name}: {done}"
    print(told, file=log, flush=True)
    reason = edited.refusal()
    if reason:
        why = edited.refused()
        assert why, f"{told}: not refused, although {reason}"
        assert reason in why, f"{told}: refused because {why!r} and not because {reason}"
        difference = graph_of(edited.bridge).difference(before)
        assert not difference, f"{told}: refused, and changed all the same:\n{difference}"
        edits.undo(remembered)
        outcome = "refused"
    else:
        edited.last = edited.fresh()
        difference = edited.follow(edited.last)
        assert not difference, f"{told}: too much (+) and missing (-) against a fresh start:\n{difference}"
        for key, identity in edited.publishers().items():
            assert objects.get(key, identity) == identity, f"{told}: {key} is another publisher"
        outcome = "equal" if edited.last == before else "changed"
    words = edited.last.difference(before).splitlines() if outcome == "changed" else [reason or outcome]
    print(*(f"    {word[:160]}" for word in words if "plan " not in word[:8]), sep="\n", file=log)
    return outcome
