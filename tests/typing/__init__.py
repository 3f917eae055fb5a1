"""Snippets of user code that every type checker must accept as written; checked by `make check`, never run."""
