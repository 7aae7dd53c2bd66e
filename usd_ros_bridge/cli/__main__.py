"""Run the command line: `python -m usd_ros_bridge.cli`."""

from usd_ros_bridge.process_settings import missing_requirements_explained

with missing_requirements_explained():
    from usd_ros_bridge.cli.main import main

    main()
