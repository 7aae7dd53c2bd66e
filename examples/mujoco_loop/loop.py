"""MuJoCo's own loop with live ROS 2 interfaces: `python examples/mujoco_loop/loop.py [SECONDS]`."""

import sys
import time
from pathlib import Path

import mujoco
import numpy as np

from usd_ros_bridge import ArrayBackend, Bridge, load_plan, rows_of

HERE = Path(__file__).parent
model = mujoco.MjModel.from_xml_path(str(HERE / "pan_tilt.xml"))
data = mujoco.MjData(model)
layout = (plan := load_plan(HERE / "pan_tilt.usda")).layout
bodies = [model.body(row).name for row in range(model.nbody)]
actuators = [model.actuator(name).id for name in layout.dofs]
backend = ArrayBackend(
    layout,
    body_pose=(data.xpos, data.xquat),
    quaternion="wxyz",
    body_rows=rows_of(layout.bodies, bodies, key=lambda path: path.rpartition("/")[2]),
    joint_position=data.qpos,
    joint_velocity=data.qvel,
    joint_rows=[model.joint(name).qposadr[0] for name in layout.dofs],
    velocity_rows=[model.joint(name).dofadr[0] for name in layout.dofs],
)
seconds = float(sys.argv[1]) if len(sys.argv) > 1 else float("inf")
mujoco.mj_step1(model, data)  # the bridge reads the first poses when it opens
with Bridge(plan, backend) as bridge:
    start = time.time()
    while data.time < seconds:
        data.ctrl[actuators] = np.nan_to_num(backend.commands.joint_position)  # 0 until commanded
        mujoco.mj_step2(model, data)
        mujoco.mj_step1(model, data)  # poses belong to the time that is handed over
        bridge.step(round((start + data.time) * 1e9))
        time.sleep(max(0.0, start + data.time - time.time()))
