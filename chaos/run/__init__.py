"""The contract between driving and judging: the run directory, its events and the typed results.

directory     paths of a run, and reading and writing of its files
events        `events.jsonl`, and the stages that it records
result        `result.json`: verdicts, their order, counts of anomalies
campaign      `runs.jsonl` and `campaign.json`, with the results of gates, comparisons, A/B runs, the corpus and proofs
ranks         statistics of the runs of gates and comparisons
trend         output of `history --json`
"""
