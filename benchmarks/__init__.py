"""What surehand costs, as ratios to a bare hand-written loop measured in the same run: ``python -m benchmarks``."""
