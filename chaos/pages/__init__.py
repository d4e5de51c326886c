"""Web pages over a folder of runs: all runs, trends, campaigns, and one run with its report, live or judged.

    history, run directories ── index ──► lists ─┐
    report.html of a run ── bar ─────────────────┼──► site ──► app ──► `serve`, or the plugin of Airflow
    events.jsonl ── live ────────────────────────┘        └──► export: a folder of files

- `folder` decides which directories and files may be read: no path leaves the folder of the runs. `local` is a folder
  on this machine; `remote` is one on another file system, with copies on this machine.
- `listing` merges the history with the directories that are not in it. `live` folds the events of a run.
- `site` draws pages, and does not know HTTP; `app` serves them, and adds the headers; `export` writes them as files.
- `chaos.report` draws reports, trends and the pages of campaigns, and has the style sheet of all pages.

All links are relative, so the pages work below any path and from disk. If its source is missing or damaged, a page says
what happened and what to do next, with the same navigation. The pages only read; nothing in a run directory changes.

Scripts: a content security policy allows only the scripts of this release, by digest. A report of another release has
another digest and is shown without its script, as in the artifact view of a CI server.
"""
