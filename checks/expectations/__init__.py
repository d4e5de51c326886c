"""The contract of a scenario as Great Expectations rules over the audit's tables.

    contract    scenario -> terms: what is bounded, by how much, in which words      (pure)
    words       the words of each kind of finding, singular and plural               (data)
    measure     audit tables and ledger -> one number per term, and what it says     (plain Python)
    classes     a named GX expectation class for each kind of term
    validate    terms + numbers -> GX on Spark -> expectations with a verdict each, and Data Docs
    judge       one GX outcome -> pass, fail or inconclusive                         (pure)
    datadocs    Data Docs made to open from a file, without a network

Importing Great Expectations takes seconds, so only `classes` and `validate` do.
"""
