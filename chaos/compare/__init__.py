"""Two clusters, or two topics, that exist: which topics are compared, and whether that can be done. Only reads.

`checks.compare` reads and judges. Roles: `model` is what is asked and found; `pairs` connects and
finds the topics; `folder` has the judge compare them.
"""
