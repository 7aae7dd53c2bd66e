"""The array backend: a host's arrays are the state. For simulators and hosts with a loop of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usd_ros_bridge.backends.base import BackendContext, Capabilities, InputlessBackend, parse_options
from usd_ros_bridge.backends.time_samples import AnimatedBodies
from usd_ros_bridge.errors import BackendError, alternatives, quoted
from usd_ros_bridge.model.actuation import UnmovedByInterface
from usd_ros_bridge.model.state import Commands, Layout, SensorSample, State
from usd_ros_bridge.spatial.scalar import UNIT_TOLERANCE, unit_fault
from usd_ros_bridge.spatial.transforms import FloatArray, normalized

Array = NDArray[Any]
RowArray = NDArray[np.intp]

UNMAPPED = -1
"""Row of an entry that the host does not have."""

_CPU = 1
"""kDLCPU of dlpack.h."""

_SHOWN = 5


def to_numpy(source: Any, name: str) -> Array:
    """Convert a host's array to a numpy array, without a copy if it is in the processor's memory.

    Args:
        source: A numpy array, or anything with `__array_interface__`, `__cuda_array_interface__` or `__dlpack__`.
        name: Name of the array, for messages.

    Raises:
        BackendError: It is of another type, or its library cannot copy it from the device.
    """
    if type(source) is np.ndarray:
        return source
    if hasattr(source, "__array_interface__"):
        return np.asarray(source)
    if hasattr(source, "__cuda_array_interface__"):
        return _from_device(source, name)
    if hasattr(source, "__dlpack__"):
        return _from_dlpack(source, name)
    raise BackendError(
        f"{name} is a {type(source).__name__}: it must be a numpy array, have __array_interface__, __dlpack__ or "
        "__cuda_array_interface__, or be a callable that returns such an array"
    )


def _from_dlpack(source: Any, name: str) -> Array:
    device = source.__dlpack_device__()
    if int(device[0]) != _CPU:
        return _from_device(source, name)
    try:
        return np.asarray(np.from_dlpack(source))
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise BackendError(f"{name} cannot be read through __dlpack__: {error}") from error


def _from_device(source: Any, name: str) -> Array:
    """Copy by the array's own library, which synchronizes its stream: CuPy, PyTorch, Warp, then DLPack."""
    failure: Exception | None = None
    for method in ("get", "cpu", "numpy"):
        copy = getattr(source, method, None)
        if copy is None:
            continue
        try:
            return np.asarray(copy())
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            failure = error
    if hasattr(source, "__dlpack__"):
        dlpack: Any = np.from_dlpack
        try:
            return np.asarray(dlpack(source, device="cpu"))
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            failure = error
    reason = f" ({failure})" if failure else ""
    raise BackendError(
        f"{name} is in a device's memory and its type, {type(source).__name__}, has no get(), cpu(), numpy() or "
        f"__dlpack__ that copies it to the host{reason}: hand over a callable that does"
    )


def rows_of(
    names: Sequence[str],
    host_names: Iterable[str],
    *,
    key: Callable[[str], str] | None = None,
    partial: bool = False,
) -> RowArray:
    """Return the row of a host's array for each entry of a layout; call it once, when the host loads.

    Args:
        names: `layout.bodies`, `layout.dofs` or `layout.dof_joints`.
        host_names: Names of the host's rows, in their order.
        key: Converts an entry of `names` to the host's name; None for equal names.
        partial: Entries that the host does not have get -1 and stay at rest; False: they are an error.

    Returns:
        (len(names),) indices into `host_names`.

    Raises:
        BackendError: A name is missing, or ambiguous.
    """
    wanted = list(names) if key is None else [key(name) for name in names]
    row_by_name: dict[str, int] = {}
    several = set()
    for row, name in enumerate(host_names):
        if row_by_name.setdefault(name, row) != row:
            several.add(name)
    if missing := [] if partial else [name for name in wanted if name not in row_by_name]:
        raise BackendError(f"the host has no row for {_listed(missing)}; it has {_listed(list(row_by_name))}")
    if clashing := [name for name in wanted if name in several]:
        raise BackendError(f"the host has several rows for {_listed(clashing)}")
    if len(set(wanted)) < len(wanted):
        twice = [name for name in dict.fromkeys(wanted) if wanted.count(name) > 1]
        raise BackendError(
            f"{_listed(twice)}: several entries of the layout; joint names are unique within a robot only, "
            "layout.dof_joints has their prim paths"
        )
    return np.array([row_by_name.get(name, UNMAPPED) for name in wanted], dtype=np.intp)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(quoted(name) for name in names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown or "none"


Source = Any
"""A host's array (numpy, `__array_interface__`, `__dlpack__`, `__cuda_array_interface__`), or a callable with one."""

Sensor = Callable[[], Any]
"""Return a sensor's arrays by name, a SensorSample with its own stamp, or None without a new measurement."""

QuaternionOrder = Literal["xyzw", "wxyz"]

_POSE, _TWIST = 7, 6


class ArrayBackend(InputlessBackend):
    """Read the state from a host's arrays at every step, and pass commands to the host.

    The arrays belong to the host. They are read only in `step` (`Bridge.step`), in the thread that calls it, and never
    written. A C-contiguous float64 numpy array with the layout's rows is used without a copy; any other array is copied
    once a step. SI units: metres, radians, seconds, newtons; the world is Z-up.

    Bodies without a row in the host's arrays stay at rest, or follow their joints.

    Attributes:
        commands: Commands, for hosts that read them after a step: for each joint its newest command, which replaces
            position, velocity and effort of the previous one; for each body its newest twist, and the pose to jump to
            if the last step had one. NaN without a command. The host may write NaN.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        body_pose: Source | tuple[Source, Source] | None = None,
        joint_position: Source | None = None,
        joint_velocity: Source | None = None,
        joint_effort: Source | None = None,
        body_twist: Source | tuple[Source, Source] | None = None,
        quaternion: QuaternionOrder = "xyzw",
        body_rows: ArrayLike | None = None,
        joint_rows: ArrayLike | None = None,
        velocity_rows: ArrayLike | None = None,
        sensors: Mapping[str, Sensor] | None = None,
        commands: bool = True,
        on_commands: Callable[[Commands], None] | None = None,
        on_reset: Callable[[], None] | None = None,
        kinematic: bool = False,
        unmoved: UnmovedByInterface | None = None,
    ) -> None:
        """Initialize.

        Each source is an array, kept by reference, or a callable that returns the current array, for hosts that swap
        buffers: it is called once in `open` and once in every step. Nothing is read before `open`, which checks every
        shape.

        Args:
            layout: The plan's: `plan.layout`.
            body_pose: (N, 7) `world_from_body`, x y z in m and a unit quaternion; or a pair (N, 3) and (N, 4).
            joint_position: (M,) rad or m. None: joints stay at rest.
            joint_velocity: (V,) rad/s or m/s. None: unknown.
            joint_effort: (V,) N m or N. None: unknown.
            body_twist: (N, 6) linear then angular velocity of the body's origin in the world frame, m/s and rad/s; or a
                pair (N, 3) and (N, 3). None: poses are differentiated.
            quaternion: Order in the host's quaternions: `wxyz` for MuJoCo and Isaac Sim, `xyzw` for Newton and ROS.
            body_rows: (B,) row of each layout body in the host's arrays, see `rows_of`; -1: the host has none. None:
                the host's rows are the layout's.
            joint_rows: (D,) index of each degree of freedom in `joint_position`, as above.
            velocity_rows: (D,) index in `joint_velocity` and `joint_effort`, where it is another one; None: joint_rows.
            sensors: By prim path of an interface, what gives its measurement; see `SensorBackend` for names and units.
            commands: False: what command subscriptions receive is dropped.
            on_commands: Called in a step that brings commands, before the arrays are read, with those commands alone
                (NaN: nothing); they are valid during the call.
            on_reset: Called when time starts over, and by `Bridge.reset`: takes the host back to rest.
            kinematic: The host moves bodies as commanded (twist, pose), so that a Twist may move a free base.
            unmoved: By kind of command (`position`, `velocity`, `effort`), the degrees of freedom that the host does
                not move so: controllers of these refuse goals. None: the host moves every joint.

        Raises:
            BackendError: The quaternion order or a row map is not possible.
        """
        if quaternion not in ("xyzw", "wxyz"):
            raise BackendError(f"quaternion {quoted(quaternion)} is not possible: xyzw or wxyz")
        self._layout = layout
        bodies = _checked_rows("body_rows", body_rows, len(layout.bodies))
        positions = _checked_rows("joint_rows", joint_rows, len(layout.dofs))
        velocities = (
            positions
            if velocity_rows is None
            else _checked_rows("velocity_rows", velocity_rows, len(layout.dofs))
        )
        rotation = (0, 1, 2, 3) if quaternion == "xyzw" else (1, 2, 3, 0)
        pose_columns = (0, 1, 2, *(3 + column for column in rotation))
        self._pose = _blocks("body_pose", body_pose, bodies, pose_columns, (3, 4))
        for block in self._pose:
            block.bodies = layout.bodies
        self._twist = _blocks("body_twist", body_twist, bodies, tuple(range(_TWIST)), (3, 3))
        self._position = _blocks("joint_position", joint_position, positions, None)
        self._velocity = _blocks("joint_velocity", joint_velocity, velocities, None)
        self._effort = _blocks("joint_effort", joint_effort, velocities, None)
        self._sensors = dict(sensors or {})
        self._samples: dict[str, SensorSample] = {}
        self._on_commands, self._on_reset = on_commands, on_reset
        measured = body_pose is not None and (bodies is None or bool((bodies != UNMAPPED).all()))
        self.capabilities = Capabilities(
            joint_driven=not measured,
            kinematic=kinematic,
            commands=commands,
            sensors=frozenset(self._sensors),
            every_step=False,
            unmoved=unmoved or {},
            sensors_of_host=True,
        )
        self.commands = Commands(layout)
        self._jumping = False
        self._state: State | None = None
        self._animated: AnimatedBodies | None = None

    def open(self, context: BackendContext) -> None:
        """Check every array, and the prim paths of the sensors.

        Raises:
            BackendError: An array has a shape that does not fit, a quaternion is not of unit length, a sensor's prim
                publishes nothing, or the plan is not the layout's.
        """
        parse_options("array", context.options, {})
        layout = context.plan.layout
        if layout is not self._layout and (layout.bodies, layout.dofs, layout.dof_joints) != (
            self._layout.bodies,
            self._layout.dofs,
            self._layout.dof_joints,
        ):
            raise BackendError("the array backend was made for the layout of another plan")
        self._check_sensors(context)
        state = State.initial(context.plan.layout)
        state.joint_velocity.fill(np.nan)
        if not self._twist:
            state.body_twist = None
        self._state = state
        self._samples.clear()
        self._read(opening=True)
        self._report_unmapped(context)
        # The host moves its bodies; the stage's time samples move the others.
        mapped = [np.arange(len(layout.bodies))[block.into] for block in self._pose]
        self._animated = AnimatedBodies(
            context.plan, skipped=frozenset(np.concatenate([*mapped, []]).tolist())
        )

    def step(self, time_ns: int, commands: Commands) -> State:
        """Pass commands to the host, then read its arrays as the state at `time_ns`."""
        state = self._state
        assert state is not None, "the backend is not open"
        if self.capabilities.commands:
            self._pass_commands(commands)
        self._read()
        state.time_ns = time_ns
        if self._animated:
            self._animated.update(state, time_ns)
        return state

    def sense(self, prim: str) -> SensorSample | None:
        """Return the host's measurement of the interface at `prim`; the previous one, if there is no new one."""
        state = self._state
        assert state is not None, "the backend is not open"
        measured = self._sensors[prim]()
        if isinstance(measured, SensorSample):
            self._samples[prim] = measured
        elif measured is not None:
            arrays: dict[str, NDArray[Any]] = {
                name: np.asarray(value)
                if isinstance(value, (int, float, np.generic))
                else to_numpy(value, f"{name} of {prim}")
                for name, value in measured.items()
            }
            self._samples[prim] = SensorSample(prim=prim, stamp_ns=state.time_ns, arrays=arrays)
        return self._samples.get(prim)

    def reset(self) -> None:
        """Reset the host, and forget commands and measurements."""
        self.commands.clear()
        self._samples.clear()
        if self._animated:
            self._animated.reset()
        if self._on_reset is not None:
            self._on_reset()

    def close(self) -> None:
        """Free the state; the arrays belong to the host."""
        self._state = self._animated = None
        self._samples.clear()

    def _check_sensors(self, context: BackendContext) -> None:
        publishers = [topic.path for topic in context.plan.topics if topic.role == "publisher"]
        for prim in self._sensors:
            if prim not in publishers:
                there = alternatives(prim, publishers)
                raise BackendError(f"sensors: {quoted(prim)} is no prim path of a publisher; {there}")

    def _read(self, *, opening: bool = False) -> None:
        state = self._state
        assert state is not None
        for block in self._position:
            state.joint_position = block.read(state.joint_position)
        for block in self._velocity:
            state.joint_velocity = block.read(state.joint_velocity)
        for block in self._effort:
            state.joint_effort = block.read(state.joint_effort)
        for block in self._pose:
            state.body_pose = block.read(state.body_pose, opening=opening)
        for block in self._twist:
            assert state.body_twist is not None
            state.body_twist = block.read(state.body_twist)

    def _pass_commands(self, commands: Commands) -> None:
        held = self.commands
        if self._jumping:
            self._jumping = False
            held.body_pose.fill(np.nan)
        if commands.silent:
            return
        position, velocity = commands.joint_position, commands.joint_velocity
        # NaN does not equal itself.
        joints = (position == position) | (velocity == velocity)
        if commands.has_effort:
            joints |= ~np.isnan(commands.joint_effort)
        any_joint, any_twist, any_jump = bool(joints.any()), False, False
        if commands.has_bodies:
            twists, jumps = ~np.isnan(commands.body_twist[:, 0]), ~np.isnan(commands.body_pose[:, 0])
            any_twist, any_jump = bool(twists.any()), bool(jumps.any())
        if any_jump:
            self._jumping = True
            held.body_pose[:] = commands.body_pose
        if any_joint:
            for name in ("joint_position", "joint_velocity", "joint_effort"):
                np.copyto(getattr(held, name), getattr(commands, name), where=joints)
        if any_twist:
            held.body_twist[twists] = commands.body_twist[twists]
        if self._on_commands is not None and (any_joint or any_twist or any_jump):
            self._on_commands(commands)

    def _report_unmapped(self, context: BackendContext) -> None:
        """Report joints that the host has no position of: their positions on joint_states are not measured."""
        known = np.zeros(len(self._layout.dofs), dtype=bool)
        for block in self._position:
            known[block.into] = True
        unknown = [self._layout.dof_joints[row] for row in np.flatnonzero(~known)]
        if unknown:
            context.report(
                "array.rest",
                f"the host gives no position of {len(unknown)} degree(s) of freedom, the first of {unknown[0]}: "
                "shown at rest",
            )


class _Block:
    """Copy one source to columns of the state, with maps of rows and columns."""

    def __init__(
        self,
        name: str,
        source: Source,
        rows: RowArray | None,
        columns: tuple[int, ...] | None,
        target: slice | None,
    ) -> None:
        """Initialize.

        Args:
            name: For messages.
            source: The host's array or getter.
            rows: Row of the source for each row of the state; None for equal rows.
            columns: Column of the source for each column of the state; None for a vector.
            target: Columns of the state; None for all.
        """
        self._name, self._source = name, source
        self._get: Callable[[], Any] | None = None if _is_array(source) or not callable(source) else source
        self._columns, self._target = columns, target
        self._width = None if columns is None else len(columns)
        self._mapped = rows if rows is None else np.flatnonzero(rows != UNMAPPED)
        self.into: RowArray | slice = slice(None)
        if rows is not None and self._mapped is not None and self._mapped.size < rows.size:
            self.into = self._mapped
        self._rows = rows if rows is None or self._mapped is None else rows[self._mapped]
        self._needed = 0 if self._rows is None or not self._rows.size else int(self._rows.max()) + 1
        self._in_order = columns is None or columns == tuple(range(len(columns)))
        self.bodies: Sequence[str] = ()
        # Columns of the quaternion, after the map of columns.
        self._rotation = (
            slice(-4, None) if self._width in (4, _POSE) and name.startswith("body_pose") else None
        )
        self._own: FloatArray | None = None
        self._index: RowArray | None = None

    def read(self, state: FloatArray, *, opening: bool = False) -> FloatArray:
        """Return the state's array with this source's part: the host's own array where possible.

        Args:
            state: The state's array.
            opening: Refuse quaternions that are not finite, too. Later, frames that are not finite are left out.
        """
        source = self._source if self._get is None else self._get()
        array = source if type(source) is np.ndarray else to_numpy(source, self._name)
        self._check(array, len(state))
        if self._rows is None and self._target is None and self._in_order and _is_plain(array):
            if self._rotation is not None:
                self._check_rotations(array, opening=opening)
            return array
        if self._own is None:
            # Never write to the host's own array: a getter may return another one later.
            self._own = state.copy() if self._target is None else state
        own = self._own
        part = own if self._target is None else own[:, self._target]
        values = array if self._rows is None else self._take(array)
        if self._rows is None and not self._in_order:
            values = values[:, self._columns]
        if self._rotation is not None:
            if array.dtype != np.float64:
                # In single precision they need normalization.
                values = values.astype(np.float64)
                values[:, self._rotation] = normalized(values[:, self._rotation])
            self._check_rotations(values, opening=opening)
        part[self.into] = values
        return own

    def _check_rotations(self, values: FloatArray, *, opening: bool) -> None:
        """Check that quaternions are of unit length.

        Raises:
            BackendError: One is not.
        """
        assert self._rotation is not None
        rotations = values[:, self._rotation]
        # One number for all: a fifth of the time that one for each takes.
        if abs(np.einsum("ij,ij->", rotations, rotations) - len(rotations)) <= UNIT_TOLERANCE:
            return
        squares = np.einsum("ij,ij->i", rotations, rotations)
        wrong = ~(np.abs(squares - 1.0) <= UNIT_TOLERANCE)
        if not opening:
            wrong &= np.isfinite(squares)
        for index in np.flatnonzero(wrong)[:1]:
            row = int(index if self._mapped is None else self._mapped[index])
            fault = unit_fault(rotations[index].tolist())
            raise BackendError(f"{self._name} of {self.bodies[row]} has the quaternion {fault}")

    def _take(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return the mapped rows with the state's order of columns, by one index into the flat array."""
        if self._index is None:
            assert self._rows is not None
            columns = self._columns
            self._index = (
                self._rows
                if columns is None
                else self._rows[:, np.newaxis] * len(columns) + np.array(columns, dtype=np.intp)
            )
        return array.reshape(-1).take(self._index)

    def _check(self, array: NDArray[Any], expected: int) -> None:
        shape = array.shape
        columns_fit = shape[1:] == (() if self._width is None else (self._width,))
        if shape and columns_fit and self._rows_fit(shape[0], expected):
            if array.dtype.kind in "fiu":
                return
            raise BackendError(f"{self._name} holds {array.dtype}, but must hold numbers")
        rows = str(expected) if self._rows is None else f"at least {self._needed}"
        wanted = f"({rows},)" if self._width is None else f"({rows}, {self._width})"
        raise BackendError(f"{self._name} has shape {shape}, but must have {wanted}")

    def _rows_fit(self, count: int, expected: int) -> bool:
        return count == expected if self._rows is None else count >= self._needed


def _blocks(
    name: str,
    source: Any,
    rows: RowArray | None,
    columns: tuple[int, ...] | None,
    widths: tuple[int, int] = (0, 0),
) -> tuple[_Block, ...]:
    if source is None:
        return ()
    if not isinstance(source, tuple):
        return (_Block(name, source, rows, columns, None),)
    if columns is None or len(source) != len(widths):
        raise BackendError(f"{name} is a tuple of {len(source)}, but must be {_wanted(columns)}")
    split = widths[0]
    first, second = columns[:split], tuple(column - split for column in columns[split:])
    return (
        _Block(f"{name}[0]", source[0], rows, first, slice(0, split)),
        _Block(f"{name}[1]", source[1], rows, second, slice(split, None)),
    )


def _wanted(columns: tuple[int, ...] | None) -> str:
    return "one array" if columns is None else "one array or a pair"


def _is_array(source: Any) -> bool:
    return type(source) is np.ndarray or any(
        hasattr(source, name) for name in ("__array_interface__", "__dlpack__", "__cuda_array_interface__")
    )


def _is_plain(array: NDArray[Any]) -> bool:
    return array.dtype == np.float64 and array.flags.c_contiguous and array.dtype.isnative


def _checked_rows(name: str, rows: ArrayLike | None, count: int) -> RowArray | None:
    if rows is None:
        return None
    array = np.asarray(rows)
    if array.shape != (count,) or (array.size and array.dtype.kind not in "iu"):
        raise BackendError(
            f"{name} has shape {array.shape} and type {array.dtype}, but must be ({count},) integers: "
            "a row for each entry of the layout"
        )
    if array.size and array.min() < UNMAPPED:
        raise BackendError(f"{name} holds {array.min()}; rows begin at 0, and -1 is none")
    return array.astype(np.intp)
