"""The history: what came of each run, kept in a database when the run directories are long gone.

    result.json ── entries ──► Entry ── store ──► run, metric ── trends ──► Trends ──► a terminal, JSON, a page

- `entries` reads a run directory that was judged: verdict, what was found, every measured time, and a digest of the
  set-up, by which runs that are the same test are told from those that are not.
- `store` keeps them: SQLite (`history.sqlite` in the folder of the runs) or PostgreSQL, by URL. The tables are made and
  brought up to date by `migrations`; their names begin with `aftershock_`, so that they may lie beside others.
- `trends` holds the last run against those before, with the statistic that it names and no other.
- `recording` is what `run`, `catalogue` and the DAGs call at their end. A history that cannot be reached costs a line
  of words and no result: `python -m chaos history import RUNS_DIR` adds what is missing, as often as one likes.

`result.json` is the interface between the halves: nothing here imports `checks`. The page is drawn by
`checks.report.trend`, a process of its own, from the JSON that `history --json` prints: it shares style and parts with
the reports, and those are drawn there.
"""
