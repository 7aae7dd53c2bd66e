"""Quality of service of a verb's own publisher, subscription or client."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from usd_ros_bridge.cli.finite_range import FiniteRange
from usd_ros_bridge.cli.graph.verb_group import Decorator, show
from usd_ros_bridge.errors import OptionError, one_of

if TYPE_CHECKING:
    from usd_ros_bridge.cli.graph.peer_client import PeerClient

POLICIES = {
    "history": "keep_last or keep_all",
    "reliability": "reliable or best_effort",
    "durability": "volatile or transient_local",
    "liveliness": "automatic or manual_by_topic",
}
"""Policies that are chosen by name, with the usual names. rclpy knows more."""


@dataclass(frozen=True, kw_only=True)
class QosOptions:
    """The `--qos-*` options as they were given.

    Attributes:
        profile: Name of a preset profile, such as `sensor_data`.
        policies: Names of policies that replace those of the profile, by kind of policy; None where not given.
        depth: Depth of the queue.
        lease_s: Liveliness lease duration, seconds.
    """

    profile: str
    policies: Mapping[str, str | None]
    depth: int | None
    lease_s: float | None

    def make(self) -> Any:
        """Return the rclpy QoSProfile.

        Raises:
            OptionError: rclpy has no profile or policy of a name.
        """
        from rclpy.duration import Duration
        from rclpy.qos import DurabilityPolicy, QoSPresetProfiles

        profile = copy.copy(_by_name(QoSPresetProfiles, "profile", self.profile))
        for kind, name in self.policies.items():
            if name is not None:
                setattr(profile, kind, _by_name(type(getattr(profile, kind)), kind, name))
        if self.lease_s is not None:
            profile.liveliness_lease_duration = Duration(seconds=self.lease_s)
        if self.depth is not None:
            profile.depth = self.depth
        elif profile.durability == DurabilityPolicy.TRANSIENT_LOCAL and profile.depth == 0:
            profile.depth = 1
        return profile

    def match(self, client: PeerClient, topic: str) -> Any:
        """Return the profile of a subscription that receives from every publisher of a topic.

        With any option but `--qos-profile`, it is the profile that was asked for.
        """
        from usd_ros_bridge.model.plan import QosPlan
        from usd_ros_bridge.ros.endpoints import qos_profiles

        own = self.make()
        if self.depth is not None or self.lease_s is not None or any(self.policies.values()):
            return own
        offered = [info.qos_profile for info in client.node.get_publishers_info_by_topic(topic)]
        if not offered:
            return own
        plan = QosPlan(reliability="best_effort", durability="volatile", depth=max(1, own.depth))
        matched = qos_profiles.profile(qos_profiles.matching(plan, offered))
        for policy in ("reliability", "durability"):
            chosen = getattr(matched, policy)
            if any(getattr(each, policy) != getattr(offered[0], policy) for each in offered):
                strong = next(getattr(each, policy) for each in offered if getattr(each, policy) != chosen)
                show(
                    f"Some, but not all, publishers are offering {_shown(strong)}. Falling back to "
                    f"{_shown(chosen)} as it will connect to all publishers"
                )
            setattr(own, policy, chosen)
        return own


def _shown(policy: Any) -> str:
    return f"QoS{type(policy).__name__}.{policy.name}"


def _by_name(policies: Any, kind: str, name: str) -> Any:
    names = [each for each in policies.short_keys() if each != "unknown"]
    if name not in names:
        raise OptionError(f"--qos-{kind}: there is no {name!r}; {one_of(name, names)}")
    return policies.get_from_short_key(name)


def qos_options(entity: str, profile: str) -> Decorator:
    """Return a decorator that adds the `--qos-*` options. The command gets them as `qos`.

    Args:
        entity: What the verb creates, for the help.
        profile: The default profile.
    """

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_qos(*arguments: Any, **options: Any) -> Any:
            qos = QosOptions(
                profile=options.pop("qos_profile"),
                policies={kind: options.pop(f"qos_{kind}") for kind in POLICIES},
                depth=options.pop("qos_depth"),
                lease_s=options.pop("qos_liveliness_lease_duration_seconds"),
            )
            return command(*arguments, qos=qos, **options)

        decorated: Callable[..., Any] = with_qos
        for option in reversed(_options(entity, profile)):
            decorated = option(decorated)
        return decorated

    return add


def _options(entity: str, profile: str) -> list[Decorator]:
    return [
        click.option(
            "--qos-profile",
            metavar="NAME",
            default=profile,
            help=f"QoS profile of the {entity} (default: {profile}).",
        ),
        click.option(
            "--qos-depth", metavar="N", type=click.IntRange(min=0), help=f"Queue size of the {entity}."
        ),
        *(
            click.option(f"--qos-{kind}", metavar="NAME", help=f"{kind.capitalize()}: {names}.")
            for kind, names in POLICIES.items()
        ),
        click.option(
            "--qos-liveliness-lease-duration-seconds",
            metavar="SECONDS",
            type=FiniteRange(min=0.0),
            help="Liveliness lease duration.",
        ),
    ]
