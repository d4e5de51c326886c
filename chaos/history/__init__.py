"""The history: a database with the verdict and the measured times of each run, which outlives the run directories.

    result.json ── entries ──► Entry ── store ──► aftershock_run ── trends ──► Trends ──► a terminal, JSON, a page

- `entries` reads a run directory: the verdict, the anomalies, all measured times, and a digest of the set-up. Runs with
  equal digests are runs of the same test.
- `store` writes entries to SQLite (`history.sqlite` in the folder of the runs) or PostgreSQL, by URL, and reads them,
  also page by page for the web pages. The only table is made if it is missing, and can be made again from run
  directories (`history import`). Its name begins with `aftershock_`, so that other programs can share the database.
- `trends` compares the last run of each test with the runs before it.
- `recording` is called by `run`, `catalogue` and the DAGs after each run. If the database is unavailable, they write
  one line and keep the result. Run `python -m chaos history import RUNS_DIR` later to add the missing runs.

The history reads `result.json`. `chaos.report.trend` draws the page of the trends.
"""
