"""The contract of a scenario as expectations of Great Expectations about the tables of the audit.

    contract      scenario -> terms: the bounded values, their bounds and names
    measure       tables of the audit and the ledger -> what is known about each value: its text, its reasons
    conditions    the same for the terms of the platform: can the run prove anything?
    bounds        the custom expectations: a number in a table lies between two bounds
    validate      a checkpoint over the tables -> an expectation with a verdict for each term, and Data Docs
    judge         the result of an expectation -> pass, fail or inconclusive

Importing Great Expectations takes seconds, so only `bounds` and `validate` import it.
"""

import os

os.environ["GX_ANALYTICS_ENABLED"] = "False"  # Great Expectations reads it when it is imported
