"""Applications of a run: the user's programs, which know nothing of Aftershock.

`supervisor` starts their instances, restarts those that end by themselves, and stops them; `instance` is one of them
with its process, `values` what it is given, and `readiness` says what it still waits for. What an application is,
stands in `chaos.setup.apps`.
"""
