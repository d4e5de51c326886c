"""Proofs: whether the promises of an application hold on a real cluster, under the faults that could break them.

    app.yaml ─ application ─► facts ─ chaos.guarantees.supports ─► plan ─ prove ─► engine ─► runs ─ judge ─► result

- `application` makes the scenario of an application, with `entries`: its clients with their settings, its topic;
- `plan` orders the sets of at most two faults: sets that cut every support of a promise come first. It makes the
  scenario of a set, which is judged by the derived contract (`expect: promised`), and adds further runs: of sets
  without a verdict, and, after a break, of the smaller sets and with the setting that mends it;
- `judge` decides from the stored runs alone;
- `prove` holds the use cases, and the plan of the campaign that runs the sets.

The order follows lineage-driven fault injection (P. Alvaro, J. Rosen and J. M. Hellerstein, "Lineage-driven Fault
Injection", SIGMOD 2015): a promise with several independent supports breaks only if faults cut all of them. Where a
set that cuts all supports breaks nothing, the model lacks a support, and the page says so.
"""
