"""Settings of all tests."""

from hypothesis import settings

# Two cores may be shared with anything: a slow example is no failure.
settings.register_profile("layoutgen", deadline=None)
settings.load_profile("layoutgen")
