"""Settings for the whole suite."""

import os

from hypothesis import HealthCheck, settings

# Compilation at a first call makes one example slow; the same examples each time make a run repeat.
settings.register_profile(
    "maillard",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("maillard")

# Bars, colours and widths must not depend on the terminal that the tests happen to run in.
os.environ.pop("FORCE_COLOR", None)
os.environ["COLUMNS"] = "120"
