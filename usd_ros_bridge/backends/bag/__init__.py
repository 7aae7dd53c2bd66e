"""Bags: files of recorded messages, what they say about motion, and how the playback backend plays it."""
