"""What holds for every test: no display, no keyring of the user, and the guards of tests/guards.py.

The variables are set before anything can import Qt or keyring. Nothing of app is imported here.
"""

import os

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ["QT_API"] = "pyside6"
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
# No test may touch the user's own data.
os.environ.pop("ONEFILL_HOME", None)

pytest_plugins = ("pytester", "tests.guards")
