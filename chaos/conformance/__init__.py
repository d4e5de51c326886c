"""The conformance suite for client programs: it starts any program on a real broker and judges it point by point.

`bench` starts the program and observes it, `writers` and `readers` hold the points for the two kinds of programs, and
`suite` runs them on a separate broker. What a program has to do is in `chaos/clients/README.md`.

A point that cannot be reached, because an earlier one of the same case failed, is reported as such: it is no success.
"""
