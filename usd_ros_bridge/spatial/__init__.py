"""Spatial: rigid transforms, as numpy arrays and as plain floats. No robot, no ROS, no USD here."""
