"""Replays traces that were recorded from the reference system and compares ours with them, whole value by whole value.

``python -m tests.conformance [DIR]`` runs the vectors in DIR (by default the ones beside this file).
"""
