"""The contract of a scenario as Great Expectations rules over the tables of the audit.

    contract      scenario -> terms: the bounded values, their bounds and names
    measure       tables of the audit and the ledger -> the observed value of each term, without Spark
    conditions    the same for the terms of the platform: can the run prove anything?
    validate      terms and values -> GX on Spark -> an expectation with a verdict for each term, and Data Docs
    judge         observed value, outcome of a GX rule -> pass, fail or inconclusive
    datadocs      Data Docs that open from a file, without a network

Importing Great Expectations takes seconds, so only `validate` imports it.
"""
