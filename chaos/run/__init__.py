"""The contract between driving and judging: the run directory, its events and the typed results.

directory     paths of a run, and reading and writing of its files
events        `events.jsonl`, and the stages that it records
result        `result.json`: verdicts, their order, counts of anomalies
comparison    `result.json` of an A/B scenario
campaign      `runs.jsonl` and the head of `campaign.json`; gate_result, client_comparison, corpus_result and
              proof_result are the results of these kinds
ranks         statistics of the runs of gates and comparisons
trend         output of `history --json`
"""
