"""Revisions of the history schema. `chaos.history.store` migrates a database to the newest one.

To add a revision, create a file in `versions` with the next number and make the same change in `chaos.history.tables`.
`tests/chaos/history/test_store.py` compares the two.
"""
