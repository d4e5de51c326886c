"""Effects as a run reads them: what an application did for each input.

    payload     a record, row, line or call -> id, value and time
    sources     databases, files and logs: all effects, or those since the last look
    receiver    the HTTP server that an application calls
    watch       looks at the sources during the drive, for the times of effects, and waits until they are complete

The watch writes `ledger/effect_sights/<effect>.jsonl`: when an effect was first seen, and the last look before it. The
check `checks.effects` reads the effects themselves at the end.
"""
