"""What Onefill costs, measured side by side in one run: `python -m tests.benchmarks`. Not part of the tests.

Ratios count, not absolutes: what is compared runs in turns, several rounds, and medians are shown.
"""
