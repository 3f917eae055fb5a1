"""A world of effects that tools write to, scripts that models play in it, and what must hold afterwards."""
