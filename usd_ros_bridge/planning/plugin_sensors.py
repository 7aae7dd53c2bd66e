"""Sensors of plug-ins: which publishers a sensor model feeds, and its attributes, checked and in SI units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from usd_ros_bridge.errors import question_about, quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.plan import TopicPlan
from usd_ros_bridge.model.property_names import near_misses
from usd_ros_bridge.model.records import SensorModelRecord
from usd_ros_bridge.model.sensor_schemas import (
    IMAGES,
    SENSOR_MODELS,
    SensorAttribute,
    SensorModel,
    SensorPlan,
)
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.planning.names import Nearest, is_below


def plan_plugin_sensors(
    records: StageRecords, topics: Sequence[TopicPlan], findings: DiagnosticCollector
) -> tuple[tuple[TopicPlan, ...], tuple[SensorPlan, ...]]:
    """Find the publishers that sensor models feed: those on their prims, or below them.

    Args:
        records: The stage as read.
        topics: All topics, with their places.
        findings: Collector of faults.

    Returns:
        The topics, none faster than its sensor, and the sensors in the order of the topics.
    """
    if not records.sensor_models:
        return tuple(topics), ()
    return _Planner(records, findings).plan(topics)


class _Planner:
    def __init__(self, records: StageRecords, findings: DiagnosticCollector) -> None:
        self._findings = findings
        self._scene_values = records.scene_values
        self._at: dict[str, list[SensorModelRecord]] = {}
        self._values: dict[tuple[str, str], dict[str, Any]] = {}
        self._scenes: dict[str, dict[str, Mapping[str, Any]]] = {}
        for record in records.sensor_models:
            if SENSOR_MODELS.get(record.schema) is not None:
                self._at.setdefault(record.path, []).append(record)
                continue
            findings.error(
                "1.4.sensor.plugin",
                record.path,
                SENSOR_MODELS.fault(record.schema),
                "correct or update the package, or uninstall it",
            )

    def plan(self, topics: Sequence[TopicPlan]) -> tuple[tuple[TopicPlan, ...], tuple[SensorPlan, ...]]:
        nearest = Nearest(self._at)
        slowed: list[TopicPlan] = []
        sensors: list[SensorPlan] = []
        for topic in topics:
            prim = nearest(topic.path) if topic.role == "publisher" and not topic.source else ""
            record = self._record(prim, topic)
            if record is None or not topic.enabled:
                slowed.append(topic)
                continue
            slowed.append(self._slowed(topic, SENSOR_MODELS[record.schema]))
            sensors.append(
                SensorPlan(
                    path=topic.path,
                    prim=prim,
                    schema=record.schema,
                    values=self._values_of(record),
                    scene=self._scene_of(record.schema),
                )
            )
        self._report_unpublished(topics)
        return tuple(slowed), tuple(sensors)

    def _record(self, prim: str, topic: TopicPlan) -> SensorModelRecord | None:
        """Return the sensor that feeds a topic at or below its prim, None for none."""
        records = self._at.get(prim, ())
        for record in records:
            model = SENSOR_MODELS[record.schema]
            if topic.type in model.types and self._has_camera(record, model, topic):
                return record
        return None

    def _has_camera(self, record: SensorModelRecord, model: SensorModel, topic: TopicPlan) -> bool:
        if topic.camera >= 0 or model.needs.isdisjoint(IMAGES):
            return True
        self._findings.warning(
            "1.4.sensor.camera",
            topic.path,
            f"{record.schema} needs images, and no camera is at or above the prim; it measures nothing",
            "put it on a Camera, or below one",
        )
        return False

    def _slowed(self, topic: TopicPlan, model: SensorModel) -> TopicPlan:
        if topic.publish_rate is None or topic.publish_rate <= model.max_rate:
            return topic
        self._findings.warning(
            "1.4.sensor.rate",
            topic.path,
            f"a rate of {topic.publish_rate:g} Hz is more than the {model.max_rate:g} Hz that the sensor has; it is "
            "published at that",
            f"author a rate of at most {model.max_rate:g} Hz",
            attribute="ros:topic:publish_rate",
        )
        return replace(topic, publish_rate=model.max_rate)

    def _values_of(self, record: SensorModelRecord) -> dict[str, Any]:
        key = record.path, record.schema
        if key not in self._values:
            attributes = SENSOR_MODELS[record.schema].attributes
            self._values[key] = {
                name: self._value(record.path, each, record.values) for name, each in attributes.items()
            }
            self._report_unknown(record, [each.name for each in attributes.values()])
        return self._values[key]

    def _value(self, path: str, attribute: SensorAttribute, authored: Mapping[str, Any]) -> Any:
        if attribute.name not in authored:
            return attribute.value(attribute.default)
        value = authored[attribute.name]
        wanted = attribute.fault(value)
        if not wanted:
            return attribute.value(value)
        self._findings.error(
            "1.4.sensor",
            path,
            f"{quoted(value)} is not {wanted}; {attribute.default} is used",
            f"author {wanted}",
            attribute=attribute.name,
        )
        return attribute.value(attribute.default)

    def _report_unknown(self, record: SensorModelRecord, known: Sequence[str]) -> None:
        for name in record.values:
            if name in known:
                continue
            near = near_misses(name, known)
            self._findings.warning(
                "1.4.sensor.name",
                record.path,
                f"{record.schema} has no attribute {quoted(name)}; it has no effect",
                question_about(near) if near else f"known here: {', '.join(known)}",
                attribute=name,
            )

    def _scene_of(self, schema: str) -> dict[str, Mapping[str, Any]]:
        """Return the scene attributes of a model; all of its sensors share them."""
        if schema not in self._scenes:
            self._scenes[schema] = {
                name: {
                    path: self._value(path, each, {each.name: value})
                    for path, value in self._scene_values.get(each.name, {}).items()
                }
                for name, each in SENSOR_MODELS[schema].scene_attributes.items()
            }
        return self._scenes[schema]

    def _report_unpublished(self, topics: Sequence[TopicPlan]) -> None:
        publishers = [topic for topic in topics if topic.role == "publisher"]
        for prim, records in self._at.items():
            types = [topic.type for topic in publishers if is_below(topic.path, prim)]
            for record in records:
                wanted = SENSOR_MODELS[record.schema].types
                if wanted.isdisjoint(types):
                    self._findings.warning(
                        "1.4.sensor.topic",
                        prim,
                        f"no publisher shows what {record.schema} measures",
                        f"apply RosTopicAPI with the role publisher and the type {' or '.join(sorted(wanted))}",
                    )
