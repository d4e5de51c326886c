"""The settings files of frameworks, images and operators. Every command that takes a user's settings file uses them.

`forms` reads the lines of a file: properties, YAML, JSON or variables. `frameworks` and `files` say what its names
mean, by the table `dialects.yaml`.
"""
