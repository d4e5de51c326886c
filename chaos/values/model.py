"""The model of `producers[].value`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from chaos.ledger.ids import IdType
from chaos.ledger.record import COUNT_HEADER, IDENTITY_HEADER, INPUT_HEADER
from chaos.units import Size
from chaos.values.pieces import names_in, parse_text
from chaos.values.places import parse_path

OWN_HEADERS = frozenset({IDENTITY_HEADER, INPUT_HEADER, COUNT_HEADER})
FILES = ("samples", "json_schema", "avro", "protobuf")
"""The fields that name files."""
_TOUCHED = re.compile(r"[\w.}-]\{id(:number|:uuid)?\}|\{id(:number|:uuid)?\}[\w.{-]")
"""An id without a visible begin or end."""
ID_SLOTS: dict[str, IdType] = {"id": "text", "id:number": "number", "id:uuid": "uuid"}
"""The placeholders of an id in a template, and the types of the ids."""
FORMS = ("samples", "template", "json_schema", "avro", "protobuf")


class Part(BaseModel):
    """A part of a value. It refuses unknown keys, and its values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _check_text(text: str) -> str:
    parse_text(text)
    return text


def _check_path(text: str) -> str:
    parse_path(text)
    return text


def _check_either(text: str) -> str:
    return _check_path(text) if text.startswith("$") else _check_text(text)


Text = Annotated[str, AfterValidator(_check_text)]
Place = Annotated[str, AfterValidator(_check_path)]
PlaceOrText = Annotated[str, AfterValidator(_check_either)]


class Registry(Part):
    """The wire format of a schema registry, without one: a zero byte, then the id of the schema in four bytes.

    Before a Protobuf message, the indexes of the message in its file follow. Source: "Wire format" in the documentation
    of Confluent Schema Registry.
    """

    id: int = Field(ge=0, lt=2**31, description="id of the schema")


class Sizes(Part):
    """The sizes of payloads in bytes, by a filler: text in a field, as long as it takes."""

    field: Place | None = Field(
        None, description="the field with the filler, such as $.note; in a template it is {filler}"
    )
    fixed: Size | None = Field(None, ge=1, le=2**26, description="one size")
    uniform: tuple[Size, Size] | None = Field(None, description="[smallest, largest], each size as often")
    weights: list[tuple[Size, Annotated[float, Field(gt=0)]]] | None = Field(
        None, min_length=1, description="[size, weight] for each size, such as [[200, 9], [10kB, 1]]"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [name for name in ("fixed", "uniform", "weights") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of fixed, uniform, weights (found {', '.join(given) or 'none'})")
        if self.uniform and self.uniform[0] > self.uniform[1]:
            raise ValueError("uniform: the first size is the smallest one")
        return self

    @property
    def largest(self) -> int:
        """The largest size."""
        if self.weights:
            return max(size for size, _ in self.weights)
        return self.uniform[1] if self.uniform else self.fixed or 0


class Value(Part):
    """Payloads of the user's form. Files are in the folder of the scenario, unless their paths are absolute."""

    samples: str | None = Field(
        None, description="a file with one JSON document in each line; sent in this order, again and again"
    )
    template: Text | None = Field(
        None,
        description="or a text with placeholders: {id}, {id:number}, {id:uuid}, {seq}, {now} (ms since the epoch), "
        "{now:iso}, {random: 1..100}, {random: red|green}, {zipf: 1..1000} (a few of them often), {uuid}, "
        "{filler}; {{id}} is the text {id} itself",
    )
    json_schema: str | None = Field(None, description="or a file with a JSON Schema that payloads fit")
    avro: str | None = Field(
        None, description="or a file with an Avro schema; with samples, it encodes them (binary, without a header)"
    )
    protobuf: str | None = Field(None, description="or a .proto file; with samples, it encodes them")
    message: str | None = Field(None, description="protobuf: the message, the first one of the file if left out")
    registry: Registry | None = Field(None, description="put the wire format of a schema registry before the payload")
    id: Place | None = Field(
        None,
        description="the place that gets the id of the record, such as $.order_id, in the form of the values there: a "
        "number below 2^53, a text of digits, a UUID, or else a text such as 7f3a91c0-shop-1-40. No two records of a "
        "run have the same one",
    )
    id_type: IdType | None = Field(
        None, description="the form of the id, found in the payloads when the scenario is loaded; not to be given"
    )
    number: int | None = Field(
        None, description="how many payloads there are, found when the scenario is loaded; not to be given"
    )
    key: PlaceOrText | None = Field(
        None, description="the key: a place such as $.customer_id, or a text with placeholders; no key if left out"
    )
    headers: dict[str, Text] = Field({}, description="record headers: texts with placeholders")
    sizes: Sizes | None = Field(None, description="sizes of payloads; as they come if left out")
    mark: Literal["header", "none"] = Field(
        "header",
        description="header: the record header `aftershock` has the identity and a CRC; none: the record has nothing "
        "of Aftershock, and the audit reads the id in the payload, so that it needs one, and corrupt_record is not "
        "judged",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [name for name in FORMS if getattr(self, name) is not None]
        if len(given) != 1 and (len(given) != 2 or given[0] != "samples" or given[1] not in ("avro", "protobuf")):
            found = ", ".join(given) or "none"
            raise ValueError(
                f"give exactly one of {', '.join(FORMS)}, or samples with avro or protobuf (found {found})"
            )
        if self.message is not None and self.protobuf is None:
            raise ValueError("message: names a message of a .proto file; give protobuf too")
        if self.template is not None:
            self._check_template(names_in(self.template))
        elif self.sizes and self.sizes.field is None:
            raise ValueError("sizes.field: name the field with the filler, such as $.note")
        if self.sizes and self.sizes.field is not None and self.sizes.field in (self.id, self.key):
            raise ValueError(f"sizes.field: {self.sizes.field} is the filler, and so neither id nor key")
        if self.mark == "none" and not self.has_id:
            raise ValueError(
                "mark: none needs an id, by which the audit knows the records; give id, such as $.order_id"
            )
        for where, text in (("key", self.key), *((f"headers.{name}", text) for name, text in self.headers.items())):
            if (
                text is not None
                and not text.startswith("$")
                and (bad := names_in(text) & {"filler", "id:number", "id:uuid"})
            ):
                raise ValueError(f"{where}: {{{min(bad)}}} belongs to a template")
        if self.key is not None and names_in(self.key) & {"now", "now:iso"}:
            raise ValueError("key: {now} would give a record that is sent again another key")
        if not self.has_id and (uses := [t for t in (self.key, *self.headers.values()) if t and "id" in names_in(t)]):
            raise ValueError(f"{uses[0]!r} has {{id}}, and there is no id; give id, such as $.order_id")
        if own := OWN_HEADERS.intersection(self.headers):
            raise ValueError(f"headers.{min(own)}: Aftershock sets this header itself")
        return self

    def _check_template(self, names: set[str]) -> None:
        if self.id is not None:
            raise ValueError("id: in a template, the id is where {id} is; leave id out")
        if self.key is not None and self.key.startswith("$"):
            raise ValueError("key: a template has no places; give a text, such as customer-{random: 1..100}")
        if len(several := [f"{{{name}}}" for name in ID_SLOTS if name in names]) > 1:
            number = "two" if len(several) == 2 else "three"
            raise ValueError(f"template: {' and '.join(several)} are {number} ids of one record; give one")
        if self.sizes and self.sizes.field is not None:
            raise ValueError("sizes.field: in a template, the filler is where {filler} is; leave field out")
        if bool(self.sizes) != ("filler" in names):
            raise ValueError("sizes: goes with {filler} in the template, and {filler} with sizes")
        if self.mark == "none" and _TOUCHED.search(self.template or ""):
            raise ValueError("template: with mark: none, nothing but a sign such as a quote may touch {id}")

    @property
    def has_id(self) -> bool:
        """Whether each payload has an id."""
        return self.id is not None or (self.template is not None and bool(names_in(self.template) & ID_SLOTS.keys()))

    def missing(self) -> Iterator[tuple[str, str]]:
        """Yield the keys of files that are not there, with their paths."""
        for name in FILES:
            if (path := getattr(self, name)) is not None and not Path(path).is_file():
                yield name, path

    def placed_in(self, folder: Path) -> Self:
        """Return a copy with absolute paths; relative ones are those in the folder of the scenario. Expands `~`."""
        paths = {name: path for name in FILES if (path := getattr(self, name)) is not None}
        return self.model_copy(
            update={name: str((folder / Path(path).expanduser()).resolve()) for name, path in paths.items()}
        )
