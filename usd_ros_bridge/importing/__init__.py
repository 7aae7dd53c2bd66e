"""Import URDF and MJCF robots: check the file, convert it in an environment of its own, and lay out the result."""
