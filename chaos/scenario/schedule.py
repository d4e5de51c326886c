"""The schedule of a scenario's DAG: a cron expression or one of Airflow's presets. Times are UTC."""

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
"""Airflow's presets, except `@once` and `@continuous`, which are not schedules."""


def check_schedule(text: str) -> str:
    """Return the schedule if Airflow accepts it. Raises `ValueError` with the reason."""
    from croniter import CroniterError, croniter  # on use: most scenarios have no schedule

    if text in PRESETS:
        return text
    if text.startswith("@"):
        raise ValueError(f"{text!r} is no preset; there are {', '.join(PRESETS)}")
    if (fields := len(text.split())) != 5:
        raise ValueError(
            f"{text!r} has {fields} fields and a cron expression five (minute, hour, day, month, weekday), "
            "such as '30 2 * * *'"
        )
    if "R" in text or "H" in text:  # croniter draws another time on each call
        raise ValueError(f"{text!r}: H and R are not supported, because each process would draw another time")
    try:
        # from a fixed moment, so that validity does not depend on the current day
        croniter(text, datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)).get_next()
    except CroniterError as e:
        raise ValueError(f"{text!r} is no cron expression, or one that never fires: {e}") from None
    return text


Schedule = Annotated[str, AfterValidator(check_schedule), Field(examples=["30 2 * * *", "@daily"])]
"""A cron expression of five fields, or a preset."""
