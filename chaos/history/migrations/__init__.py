"""The history's schema, one revision after another; `chaos.history.store` brings a database up to the newest.

A new revision: a file in `versions` with the next number, and the same change in `chaos.history.tables`, which
`tests/chaos/history/test_store.py` holds against each other.
"""
