"""Campaigns: many runs with one question. Gate, catalogue, comparison, repetition, search and proof are plans.

    request ─► plan ─ trials ─► engine ─► runs.jsonl ─► judge ─► campaign.json ─► report.html, summary.md
                 ▲                             │
                 └──────────── runs ───────────┘

- a **trial** (`engine.Trial`) is a run that is wanted: a scenario with variant, client library and seed;
- a **plan** (`engine.Plan`) is a function from the stored runs to the trials that are wanted. A list of trials ignores
  the runs; `shrink`, `bisect` and a proof are fed with them. A campaign goes on by calling the plan with stored runs;
- the **engine** runs them: lent clusters, workers, budget, Ctrl-C, what cannot run, the history, bundles of failures;
- the **folder** (`folder`) has one format: `plan.json` (what was asked, and what must not change), `runs.jsonl` (a line
  for each finished run, appended when its verdict is known), the run directories, and the result with its pages;
- the **score** (`score`) counts: verdicts, rates with exact intervals, equal outcomes. `chaos.run.ranks` compares
  times;
- the **result** (`chaos.run.campaign`) is a head with verdict and sentence, and the parts of the campaign.

| plan | trial | how it is judged |
| --- | --- | --- |
| `catalogue` | a shipped scenario | the worst verdict; a missing run is inconclusive |
| `corpus` | a variant of a published bug | the affected variant shows the bug, the fixed one does not |
| `repeat` | one scenario with another seed | rates with intervals; the worst verdict |
| `ab` | a variant of a scenario, on its own brokers | the variants side by side (`chaos.campaign.comparison`) |
| `replay` | the incident itself | the same outcome or not |
| `shrink` | the next candidate | one of its runs shows the anomaly |
| `bisect` | a release in the middle | the same outcome as the older end, or another one |
| `gate` | a cell of the matrix, in rounds | contracts, and times compared with a reference |
| `compare` | a scenario with a client library | values compared with the reference |
| `prove` | a set of faults | promises of the application |
| `windows` | a crash at a moment of an application's work | what the crash lost or doubled |
| `chance` | a mixture of faults, drawn at random | what broke though it was promised, filed once |

`subject` is the scenario of a trial, from a bundle, a run directory or a file; `clients` and `releases` change its
client library or release; `search` and `reduce` are the algorithms of the searches.
`explore` is the use case of `windows` and `chance`: both begin with the runs of `moments`, and tell what broke by
`mechanisms`; `mixture` draws faults.

Exit codes: 0 and 1 as each command defines them; 2 bad input, nothing was run; 3 no answer; 130 interrupted.
"""
