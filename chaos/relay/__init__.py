"""The relay: a process between clients and brokers, or between brokers, that breaks the traffic it passes on.

A run starts the relay in one of two roles. Both use the same server, connections and control socket; they differ in
the policy that decides about the traffic.

| role     | between                                         | policy               | faults                       |
|----------|-------------------------------------------------|----------------------|------------------------------|
| `proxy`  | the clients and the brokers' client listeners   | rules for frames     | `wire.*`                     |
| `switch` | the brokers, and their clients (process driver) | cuts for connections | `broker.isolate`, `link.cut` |

The relay needs no root. The proxy works with any driver, and with a cluster that the run did not start, over plaintext
listeners with or without SASL. TLS hides the frames, so loading a scenario with TLS and `wire.*` faults fails.

## Connections

For each connection that it accepts the relay opens one to the broker. When a side closes, the relay closes the other
side after everything that it still holds. If the broker refuses the connection, the client gets a reset. While a
direction holds 1 MiB, or its receiver is that far behind, the relay stops reading from its sender.

## Proxy

Clients get the proxy's bootstrap servers instead of the cluster's. The proxy replaces the brokers' addresses by its
own in every answer that contains them: Metadata, FindCoordinator, DescribeCluster, and the new leader in Produce. So
clients never connect to a broker directly. The observer, the read-back and the faults' own requests use the brokers'
addresses in `cluster.json`, because they must see the true state during a cut.

The proxy changes two things without any rule, both in ApiVersions, so that no broker address reaches a client:

- It does not offer versions of the rewritten requests that kafka-python cannot decode, nor the share group requests.
- It offers Fetch up to version 15. Version 16 (KIP-951) adds the new leader to the answer, and the proxy would have to
  hold answers of up to 50 MiB to replace it. Consumers find a new leader by Metadata instead.

Of each frame the proxy reads the length, and then the API key, version, correlation id and client id of a request, or
the correlation id of an answer. It passes the rest on in the pieces in which it arrives. It holds only the answers
listed above until they are complete.

A rule names frames (brokers, API, client id, requests or answers) and an act:

| act     | effect                                                                                                  |
|---------|---------------------------------------------------------------------------------------------------------|
| `drop`  | The frame disappears; the connection stays open.                                                        |
| `delay` | The frame waits, with everything behind it on the same connection and direction (TCP keeps the order).  |
| `cut`   | The connection closes instead of passing the frame on.                                                  |
| `slow`  | Every byte on the link to the broker takes longer: half of `latency_s` in each direction, and a         |
|         | bandwidth that all connections to the broker share.                                                     |

The first rule that matches decides. Each rule counts the frames that it hits; after `count` hits it matches no more.
When a rule is removed, the frames that it holds pass at once and in order.

## Switch

Every listener of the brokers (`clients`, `peers`, `quorum`) is advertised at a port of the switch, so all traffic
passes through it. It reads the first request header of each connection to `peers` and `quorum`, which identifies the
broker that connects (see `chaos.relay.cuts`), and passes all later bytes on unread.

Bytes in a direction that is cut are held, and arrive after the cut. TCP behaves alike: it sends lost packets again. A
new connection needs both directions for its handshake, so none comes about while either direction is cut. When a
connection to `peers` or `quorum` names no broker, the switch logs it, and holds it during every cut that concerns its
broker. (Kafka 4.3.1 and 3.9.2 make no such connections.)

## Control

The control socket `proxy.sock` or `switch.sock` in the run directory takes one JSON object per line:

| order                                    | answer                                                     |
|------------------------------------------|------------------------------------------------------------|
| `{"do": "add", "item": {…}}`             | `{"id": 1}`; the item is a `Rule` or a `Cut`               |
| `{"do": "hits", "id": 1}`                | `{"hits": 7}`: frames (rules), or pieces of data (cuts)    |
| `{"do": "remove", "id": 1}`              | `{"hits": 7}`                                              |
| `{"do": "status"}`                       | `{"active": […], "ports": […]}`, with the Fetch requests   |
|                                          | by client at each port of the proxy                        |

An invalid order gives `{"error": "…"}`. A rule or cut ends with the control connection that added it, so a process that
dies leaves none behind. The process environment carries the role (`AFTERSHOCK_ROLE`), so that `ps`, `gc` and the reaper
find the relay.
"""
