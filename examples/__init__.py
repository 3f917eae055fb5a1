"""Small, complete programs built on surehand."""
