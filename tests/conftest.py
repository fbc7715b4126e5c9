"""What holds for every test: no display, no keyring of the user, and the guards of tests/guards.py.

The variables are set before anything can import Qt or keyring. Nothing of app is imported here.
"""

import os

import hypothesis

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ["QT_API"] = "pyside6"
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
# No test may touch the user's own data.
os.environ.pop("ONEFILL_HOME", None)

pytest_plugins = ("pytester", "tests.guards")

# A landing must not hang on the luck of a draw: with CI set, generated tests draw the same examples.
# By hand they draw new ones, and a failure names how to repeat it.
hypothesis.settings.register_profile(
    "ci", derandomize=True, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
if os.environ.get("CI"):
    hypothesis.settings.load_profile("ci")
