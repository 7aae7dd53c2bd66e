"""Edits of an open stage: variants, visibility, spawned assets, overrides of attributes, files read again."""
