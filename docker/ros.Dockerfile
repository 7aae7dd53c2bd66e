# The bridge in a workspace over ROS 2 from apt: with ros2, ros2 launch, and room for your own packages. From the root of the clone:
#
#   docker build --file docker/ros.Dockerfile --tag usd_ros_bridge:jazzy .
#   docker run --rm -it --init --network host --ipc host usd_ros_bridge:jazzy
#
# docs/how_to/docker.md explains the options. ROS is jazzy or kilted.
ARG ROS=jazzy
FROM ros:${ROS}-ros-base

SHELL ["/bin/bash", "-o", "pipefail", "-c"]
WORKDIR /workspace
# What package.xml names comes before the sources: an edit of those installs nothing again.
COPY package.xml src/usd_ros_bridge/package.xml
# Ubuntu and ROS have one version of each: those of today.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libegl1 libgl1-mesa-dri python3-venv \
    && rosdep update --rosdistro "$ROS_DISTRO" \
    && rosdep install --from-paths src --ignore-src --dependency-types exec -y \
    && rm -rf /var/lib/apt/lists/*
# Ubuntu's Python takes no packages of pip: an environment over it does. numpy stays the one that ROS was built against.
RUN python3 -m venv --system-site-packages /opt/usd \
    && python3 -c 'import numpy; print(f"numpy=={numpy.__version__}")' >/opt/usd/constraints.txt \
    && /opt/usd/bin/python -m pip install --no-cache-dir --disable-pip-version-check --constraint /opt/usd/constraints.txt \
        "usd-core>=26.5" "mujoco>=3.3" "coacd>=1.0.5" "watchfiles>=0.21" "textual>=1.0"
COPY . src/usd_ros_bridge
RUN source "/opt/ros/$ROS_DISTRO/setup.bash" \
    && source /opt/usd/bin/activate \
    && python3 -m colcon build --packages-select usd_ros_bridge

COPY --chmod=755 docker/ros_entrypoint.sh /usr/local/bin/workspace_entrypoint
# Ubuntu's user with the id 1000, which most machines' first user has, too.
USER 1000
WORKDIR /home/ubuntu
STOPSIGNAL SIGINT
ENTRYPOINT ["workspace_entrypoint"]
CMD ["usd_ros_bridge", "run", "--example", "rover", "--no-live"]
