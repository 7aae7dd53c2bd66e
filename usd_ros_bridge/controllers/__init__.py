"""Controllers: state, goals and time to commands, without ROS."""
