"""Rows that a producer writes in place of records: a table or a file, which a source of Kafka Connect reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pydantic import Field, model_validator

from chaos.databases import PARAMETER
from chaos.setup.effects import Database, app_of
from chaos.setup.names import WriterName
from chaos.setup.triggers import Strict
from chaos.values.model import Value

TOPIC_ONLY = (
    *("keys", "tombstone_every", "partitioner", "definite_errors", "timestamps", "resend", "checkpoint_every"),
    *("transactions", "client"),
)
"""Fields of a producer that mean nothing for rows, besides its settings."""


class Rows(Strict):
    """A table of a database, or a file: exactly one of sql, file. Each row or line is an input of effects.

    A row is inserted in one transaction. After a lost connection nobody knows whether it was committed, so it is
    inserted again: the table has to refuse the second one, by a primary key or a unique column with the id.
    """

    sql: Database | None = Field(
        None,
        description="the database: a URL without a login, env:NAME or file:PATH with it, or app:NAME for an "
        "application of the run with `postgres`",
    )
    insert: str | None = Field(
        None,
        min_length=1,
        description="sql: the statement for each row, with fields of the value by name, such as "
        "insert into orders (id, amount) values (:order_id, :amount)",
    )
    file: WriterName | None = Field(
        None, description="or a file of the run, with a value in each line; its path is {rows.NAME} of the producer"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.sql is None) == (self.file is None):
            raise ValueError("give exactly one of sql, file")
        if (self.sql is None) != (self.insert is None):
            raise ValueError("insert: goes with sql, and sql needs it")
        if self.sql and self.sql.startswith("jdbc:"):
            raise ValueError("sql: rows are written through SQLAlchemy; write a URL such as postgresql://host/name")
        if self.insert and not PARAMETER.search(self.insert):
            raise ValueError("insert: names no field of the value; write :order_id where it is")
        return self

    @property
    def app(self) -> str | None:
        """The application of the run that is the database; None if it is another database, or a file."""
        return app_of(self.sql)


def check_rows(producer: str, given: Sequence[str], value: Value | None) -> None:
    """Raise `ValueError` if a producer of rows has fields of a producer of records, or no ids.

    given: the fields of a producer of records that the scenario gives.
    """
    if given:
        raise ValueError(f"{given[0]}: is for records of a topic, and {producer} writes rows; leave it out")
    if value is None or not value.has_id:
        raise ValueError("rows: each has an id, by which its effects are found; give value with id, such as $.order_id")
    if value.avro or value.protobuf or value.registry or value.headers or value.key or value.mark == "none":
        raise ValueError("value: rows are made of JSON, without key, headers, mark and schema; leave them out")
