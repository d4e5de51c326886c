"""Proofs: whether the promises of an application hold on a real cluster, under the faults that could break them.

    app.yaml ─ application ─► facts ─ supports, faults ─► plan ─ runner ─► chaos.campaign ─► runs ─ judge ─► result

- `prove` holds the use cases: plan a proof, run it or go on with it, judge its stored runs;
- `application` makes the scenario of an application: its clients with their settings, its topic, its traffic;
- `supports` says what supports each promise, by the table in `rules/supports.yaml`;
- `faults` has the fault classes and what each of them cuts, by the table in `rules/faults.yaml`;
- `plan` orders the sets of at most two faults: those that cut every support of a promise come first;
- `scenarios` makes the scenario of a set, which is judged by the derived contract (`expect: promised`);
- `runner` is the plan of the campaign (`chaos.campaign`) that runs the sets; `follow_up` adds further runs: of sets
  without a verdict, and, after a break, of the smaller sets and with the setting that mends it;
- `judge` decides from the stored runs alone.

The order is that of lineage-driven fault injection (P. Alvaro, J. Rosen and J. M. Hellerstein, "Lineage-driven Fault
Injection", SIGMOD 2015): a promise with several independent supports breaks only if faults cut all of them. Where a set
that cuts all supports breaks nothing, the model lacks a support, and the page says so.
"""
