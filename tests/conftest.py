"""What all tests share: time is for benchmarks, so no property has a deadline, however busy the machine is."""

from hypothesis import HealthCheck, settings

settings.register_profile("aftershock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("aftershock")
