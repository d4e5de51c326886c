"""What applications of the user did for each input: read, joined with the inputs, and judged.

    read      the stage `effects` of the read-back: topics, databases, files, logs and calls -> ledger/effects.parquet
    judge     inputs x effects, as DataFrames -> audit/effect_inputs (the joined table), effect_totals, effect_findings
    judged    the judgement of one effect, and aggregates of an effect of all inputs of a key
    story     what the wire saw of the first findings, and the cause that this shows
    lanes     what applications did over time, for the report
    findings  the first findings of each kind as sentences

Great Expectations judges `effect_inputs` (`checks.expectations`); `effect_totals` has the same numbers for sentences.

An input is a record of the topic with a producer that has ids: a row of `sends`, or a record of the log, if its row was
lost with its producer. It must have its effects if it was acknowledged, must have none if it was definitely not
written, or aborted, and may have them otherwise. Where a record that could have been read decides, the number is a
range. So it is for an aggregate while an input may have any key, because the log no longer has it.
"""
