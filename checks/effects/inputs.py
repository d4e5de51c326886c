"""Inputs of effects: records of producers with ids, with what became of each, and the ids in effects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from chaos.ledger.ids import NUMBER_BITS, UUID_FIXED, Ids, IdType, number_id
from chaos.scenario.effect_rules import producers_with_ids
from chaos.scenario.model import Scenario

OWN, OTHER, FOREIGN = "own", "other", "foreign"
"""Whether an id is of this run, of another run, or of neither."""
KEY = ["producer", "seq"]


def kind_of(scenario: Scenario) -> dict[str, IdType]:
    """Return the type of the ids of each producer by its name."""
    found: dict[str, IdType] = {}
    for producer in producers_with_ids(scenario):
        found[producer.name] = (producer.value and producer.value.id_type) or "text"
    return found


def identified(effects: DataFrame, ids: Ids) -> DataFrame:
    """Add `origin` (own, other, foreign), and for ids of this run `producer` and `seq`.

    All forms of ids are read, because a database may have a number as text.
    """
    token = F.regexp_extract("id", r"^([0-9a-f]{8})-(.+)-(0|[1-9][0-9]{0,11})$", 1)
    client = F.regexp_extract("id", r"^([0-9a-f]{8})-(.+)-([^-]+)-(0|[1-9][0-9]{0,11})$", 2)
    number = F.regexp_extract("id", r"^([0-9a-f]{8})-(.+)-([^-]+)-(0|[1-9][0-9]{0,11})$", 3)
    text_client = F.concat(client, F.lit("/"), number)
    is_text = (token == ids.run_token) & text_client.isin(list(ids.first))
    text_seq = F.regexp_extract("id", r"-([0-9]{1,12})$", 1).cast("long")
    form = rf"^([0-9a-f]{{8}}){UUID_FIXED}([0-9a-f]{{3}})-([0-9a-f]{{12}})$"
    of_uuid, high, low = (F.regexp_extract(F.lower("id"), form, group) for group in (1, 2, 3))
    is_uuid = of_uuid != ""
    digits = F.when(F.col("id").rlike("^[0-9]{1,17}$"), F.col("id"))
    plain = F.when(is_uuid, F.conv(F.concat(high, low), 16, 10)).otherwise(digits).cast("long")
    at = plain - F.lit(number_id(ids.created_us, 0, 0))
    is_number = (at >= 0) & (at < ids.most) & (~is_uuid | (of_uuid == ids.run_token))
    others = ((token != "") & (token != ids.run_token)) | (plain >= 2**NUMBER_BITS)
    owner, begin = _owner(at, ids)
    return effects.select(
        "*",
        F.when(is_text | is_number, OWN).when(others, OTHER).otherwise(FOREIGN).alias("origin"),
        F.when(is_text, text_client).when(is_number, owner).alias("producer"),
        F.when(is_text, text_seq).when(is_number, at - begin).alias("seq"),
    )


def _owner(at: Column, ids: Ids) -> tuple[Column, Column]:
    """Return the client of a number by its place among all records, and the place of its first record."""
    owner, begin = F.lit(None).cast("string"), F.lit(0).cast("long")
    for client, start in ids.first.items():
        owner = F.when(at >= start, F.lit(client)).otherwise(owner)
        begin = F.when(at >= start, F.lit(start)).otherwise(begin)
    return owner, begin


def inputs_of(
    sends: DataFrame, log: DataFrame, transactions: DataFrame, names: Iterable[str], topic: str, token: str
) -> DataFrame:
    """Return one row per input of a topic.

    state: ok, unknown or fail; fail too if the log has each send of it as aborted, whatever its producer learned of
    the transaction. copies: how often it is in the log, aborted ones left out. acked_us: when it was acknowledged, or
    its transaction ended. The place is that in the log, else the one in the acknowledgement.
    """
    clients = list(names)
    mine = F.split("producer", "/").getItem(0).isin(clients) & (F.col("topic") == topic)
    ended = transactions.select(
        "producer", "incarnation", "txn", F.col("outcome").alias("ended"), F.col("ended_us").alias("txn_us")
    )
    sent = sends.where(mine).join(F.broadcast(ended), ["producer", "incarnation", "txn"], "left")
    state = (
        F.when(F.col("txn").isNull(), F.col("outcome"))
        .when(F.col("ended") == "aborted", "fail")
        .when(F.col("ended") == "committed", F.col("outcome"))
        .otherwise(F.when(F.col("outcome") == "fail", "fail").otherwise("unknown"))
    )
    acked = F.greatest("completed_us", "txn_us")
    sent = sent.select(*KEY, "partition", "offset", "invoked_us", state.alias("state"), acked.alias("done_us"))
    is_ok = F.col("state") == "ok"
    sent = sent.groupBy(*KEY).agg(
        F.max(F.when(is_ok, 3).when(F.col("state") == "unknown", 2).otherwise(1)).alias("rank"),
        F.count("*").alias("sends"),
        F.min("invoked_us").alias("invoked_us"),
        F.min(F.when(is_ok, F.col("done_us"))).alias("acked_us"),
        F.min(F.when(is_ok, F.struct("partition", "offset"))).alias("sent_at"),
    )
    here = log.where((F.col("run") == token) & mine)
    visible = F.coalesce("committed", F.lit(True))
    logged = here.groupBy(*KEY).agg(
        F.count(F.when(visible, 1)).alias("copies"),
        F.count(F.when(~visible, 1)).alias("aborted"),
        F.min(F.struct(~visible, "partition", "offset")).alias("logged_at"),
    )
    both = sent.join(logged, KEY, "full_outer")
    lost_row = F.when(F.col("copies") > 0, "unknown").otherwise("fail")  # the row was lost with its producer
    all_aborted = (F.col("copies") == 0) & (F.col("aborted") >= F.col("sends"))
    return both.select(
        *KEY,
        F.when(F.col("rank") == 3, "ok")
        .when((F.col("rank") == 2) & ~F.coalesce(all_aborted, F.lit(False)), "unknown")
        .when(F.col("rank").isNotNull(), "fail")
        .otherwise(lost_row)
        .alias("state"),
        F.coalesce("copies", F.lit(0)).cast("long").alias("copies"),
        "invoked_us",
        "acked_us",
        F.coalesce("logged_at.partition", "sent_at.partition").alias("partition"),
        F.coalesce("logged_at.offset", "sent_at.offset").alias("offset"),
    )


def id_column(ids: Ids, kinds: Mapping[str, IdType]) -> Column:
    """Return the id of an input by its producer and seq. kinds: see `kind_of`."""
    begin = F.lit(number_id(ids.created_us, 0, 0))
    for client, start in ids.first.items():
        begin = F.when(F.col("producer") == client, F.lit(number_id(ids.created_us, start, 0))).otherwise(begin)
    of_kind = {kind: [name for name, one in kinds.items() if one == kind] for kind in ("number", "digits", "uuid")}
    client = F.translate("producer", "/", "-")
    text = F.concat(F.lit(f"{ids.run_token}-"), client, F.lit("-"), F.col("seq").cast("string"))
    entry, number = F.split("producer", "/").getItem(0), begin + F.col("seq")
    high, low = F.shiftright(number, 48), number.bitwiseAND(F.lit((1 << 48) - 1))
    groups = [F.lpad(F.lower(F.hex(part)), width, "0") for part, width in ((high, 3), (low, 12))]
    uuid = F.concat(F.lit(f"{ids.run_token}{UUID_FIXED}"), groups[0], F.lit("-"), groups[1])
    plain = F.when(entry.isin(of_kind["number"] + of_kind["digits"]), number.cast("string"))
    return plain.when(entry.isin(of_kind["uuid"]), uuid).otherwise(text)
