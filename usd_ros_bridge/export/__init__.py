"""A plan in other formats: JSON, URDF, mesh files. Pure."""
