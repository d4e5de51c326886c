"""What the programs of `kafka-python` and `aiokafka` share.

`library` is what a library has to offer: a blocking consumer and producer. `producer`, `group` and `assigned` are the
programs on top of it, and `main` runs the one that a spec names.
"""
