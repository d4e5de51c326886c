"""The corpus: published bugs as scenarios, run to see whether Aftershock finds them.

A case is a scenario with `bug:` (`chaos.scenario.bug`). Its variant `affected` has the bug, its variant `fixed` does
not. The files of `chaos/bugs` are cases, and so are shipped scenarios that show a bug of a client library.
"""
