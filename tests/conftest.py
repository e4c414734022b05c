"""Settings of all tests."""

from hypothesis import settings

# Two cores may be shared with anything: a slow example is no failure. The examples are the same in every run, so that a
# failure is the change's; the sweep draws new ones.
settings.register_profile("layoutgen", deadline=None, derandomize=True)
settings.load_profile("layoutgen")
