"""What people read of results: pages, JUnit XML, summaries for pull requests, and tables in a terminal.

    Result ─────┬── terminal, junit ─────────────────────────► a terminal, a CI server
    tables ─────┴── timeline, anomalies, settings ── html ───► report.html of a run
    campaign.json ── campaign (gate, clients), compare ──────► report.html, summary.md
    Trends ── trend ─────────────────────────────────────────► trends.html
                                    charts, pages, text      used by all of them

A page is drawn in the process that has the result. It judges nothing: verdicts, statistics and sentences are in the
result.
"""
