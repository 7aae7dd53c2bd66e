"""Codecs of motor_msgs: joints and temperatures out, commands in."""

import struct
from dataclasses import dataclass

import numpy as np

from usd_ros_bridge import Encoding, MessageCodec, NoSourceError, SinkRefusal, array_of, sensed

COMMANDED = {0: "joint_position", 1: "joint_velocity", 2: "joint_effort"}
"""Array of the commands by MotorCommand.mode."""


# --- Out: from the state --------------------------------------------------------------------------------------------


def encode_states(topic, plan):
    """MotorStates: positions and velocities of the joints of the publisher's context, rad or m, and per second."""
    if not topic.dofs:
        raise NoSourceError("its context has no movable joint")
    names = list(plan.joint_names(topic))
    rows = slice(topic.dofs[0], topic.dofs[-1] + 1)
    if tuple(range(rows.start, rows.stop)) != tuple(topic.dofs):
        raise NoSourceError("its joints do not follow one another")

    def prepare(message, _values):
        message.name = names

    return Encoding(
        values=lambda snapshot: tuple(each[rows] for each in joint_arrays(snapshot)),
        prepare=prepare,
        sequences=("position", "velocity"),
        constants=lambda: tuple(names),
        # All robots at once: a fleet is published as a batch.
        arrays=joint_arrays,
        rows=rows,
    )


def joint_arrays(snapshot):
    """Return positions and velocities of the joints of all robots, (D,) each."""
    return snapshot.state.joint_position, snapshot.state.joint_velocity


# --- Out: from a sensor of the backend or the host ------------------------------------------------------------------


def encode_temperatures(topic, _plan):
    """MotorTemperatures: the array `celsius` of the sensor at the publisher's prim, degrees Celsius."""
    return sensed(topic, (), lambda sample: (array_of(sample, "celsius"),), sequences=("celsius",))


# --- In -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class MotorSample:
    """A decoded MotorCommand."""

    mode: int
    values: np.ndarray


def decode_command(message):
    """MotorCommand: the mode, and a value for each motor."""
    return MotorSample(message.mode, np.array(message.values, dtype=np.float64))


def read_command(data):
    """MotorCommand from its bytes, ten times as fast; None for bytes that rclpy is to read."""
    if data[:4] != b"\0\1\0\0" or len(data) < 16:
        return None
    (length,) = struct.unpack_from("<I", data, 12)
    mode = 16 + length
    count_at = (mode + 4) & ~3
    if length == 0 or count_at + 4 > len(data) or data.find(0, 16, mode) != mode - 1:
        return None
    (count,) = struct.unpack_from("<I", data, count_at)
    # Numbers of eight bytes are aligned to eight, counted from behind the encapsulation of four bytes.
    begin = ((count_at + 4 - 4 + 7) & ~7) + 4
    if count == 0:
        return MotorSample(data[mode], np.zeros(0))
    if begin + 8 * count > len(data):
        return None
    return MotorSample(data[mode], np.frombuffer(data, "<f8", count, begin))


class MotorSink:
    """Command the joints of a subscription's context, in their order."""

    def __init__(self, context, topic):
        """Store the joints; refuse a topic that cannot command any."""
        if not context.capabilities.commands:
            raise SinkRefusal("the backend takes no commands")
        if not topic.dofs:
            raise SinkRefusal("its context has no movable joint")
        self._rows = np.array(topic.dofs)
        self._name = topic.name
        self._report = context.report

    def apply(self, sample, commands):
        """Write the targets of one message; called in the tick."""
        kind = COMMANDED.get(sample.mode)
        if kind is None or len(sample.values) != len(self._rows):
            self._report(
                f"motor.command:{self._name}",
                f"{self._name}: {len(sample.values)} values in mode {sample.mode} are ignored: "
                f"there are {len(self._rows)} motors, and modes 0 to 2",
            )
            return
        getattr(commands, kind)[self._rows] = sample.values


STATES = MessageCodec(encode=encode_states)
TEMPERATURES = MessageCodec(encode=encode_temperatures)
COMMAND = MessageCodec(decode=decode_command, reader=lambda: read_command)
