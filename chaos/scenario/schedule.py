"""When a scenario's DAG runs by itself: a cron expression, or one of Airflow's presets. Times are UTC."""

from __future__ import annotations

import datetime
from typing import Annotated

from pydantic import AfterValidator, Field

PRESETS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
}
"""Airflow's own names. `@once` and `@continuous` are not offered: what runs once or without end is no schedule."""


def check_schedule(text: str) -> str:
    """The schedule, if Airflow understands it as it is meant. Raises `ValueError` with the reason."""
    from croniter import CroniterError, croniter  # on use: most scenarios have none

    if text in PRESETS:
        return text
    if text.startswith("@"):
        raise ValueError(f"{text!r} is no preset; there are {', '.join(PRESETS)}")
    if (fields := len(text.split())) != 5:
        raise ValueError(
            f"{text!r} has {fields} fields and a cron expression five (minute, hour, day, month, weekday), "
            "such as '30 2 * * *'"
        )
    if "R" in text or "H" in text:  # croniter would draw another time whenever it is asked
        raise ValueError(f"{text!r}: H and R are not offered, for each process would draw a time of its own")
    try:
        # from a fixed moment: what is valid must not hang on the day on which it is read
        croniter(text, datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)).get_next()
    except CroniterError as e:
        raise ValueError(f"{text!r} is no cron expression, or one that never comes: {e}") from None
    return text


Schedule = Annotated[str, AfterValidator(check_schedule), Field(examples=["30 2 * * *", "@daily"])]
"""A cron expression of five fields, or a preset."""
