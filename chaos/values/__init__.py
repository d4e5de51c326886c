"""Payloads of the user's form, in place of values of Aftershock's own: `producers[].value`.

| module | role |
|---|---|
| `model` | what a scenario says |
| `places` | one place in a JSON document: its path, and the bytes that hold its value |
| `pieces` | texts with placeholders |
| `schemas` | documents that fit a JSON Schema, an Avro schema or a Protobuf message, and their bytes |
| `payloads` | the payload of each record, and the id in a payload |

A payload is a function of the seed, the client and the seq: a record that is sent again has the same one. Only `{now}`
differs. The programs of clients make payloads, the read-back finds ids in them, and loading tries them.
"""
