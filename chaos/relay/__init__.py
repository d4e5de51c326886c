"""The relay: a process between clients and brokers, or between brokers, that breaks the traffic it passes on.

A run starts the relay in one of two roles. Both use the same server, connections and control socket; they differ in
the policy that decides about the traffic.

| role     | between                                         | policy               | faults                       |
|----------|-------------------------------------------------|----------------------|------------------------------|
| `proxy`  | the clients and the brokers' client listeners   | rules for frames     | `wire.*`                     |
| `switch` | the brokers, and their clients (process driver) | cuts for connections | `broker.isolate`, `link.cut` |

The relay needs no root. The proxy works with any driver, and with a cluster that the run did not start, over plaintext
listeners with or without SASL. With TLS, the proxy ends the connections of clients by a certificate of the run's
authority, and makes encrypted ones to the brokers, with the certificate of the clients if they need one. Clients of an
existing cluster so trust an authority that is made for the run, or for a tap (`chaos.tap`); a certificate of theirs
cannot pass, and the proxy asks for none.

## Connections

For each connection that it accepts the relay opens one to the broker. When a side closes, the relay closes the other
side after everything that it still holds. If the broker refuses the connection, the client gets a reset. While a
direction holds 1 MiB, or its receiver is that far behind, the relay stops reading from its sender.

## Proxy

Clients get the proxy's bootstrap servers instead of the cluster's. The proxy replaces the brokers' addresses by its
own in every answer that contains them: Metadata, FindCoordinator, DescribeCluster, and the new leaders in Produce,
Fetch, ShareFetch and ShareAcknowledge (KIP-951). So clients never connect to a broker directly. The observer, the
read-back and the faults' own requests use the brokers' addresses in `cluster.json`, because they must see the true
state during a cut.

Without any rule the proxy changes nothing else. It offers every request of Kafka 4.4 in every version. Of requests that
it may have to decode, it does not offer versions that are newer, so that no broker address reaches a client.

Of each frame the proxy reads the length, and then the API key, version, correlation id and client id of a request, or
the correlation id of an answer. It passes the rest on in the pieces in which it arrives. It holds only the answers
listed above until they are complete. An answer to Fetch is as large as the client asks for (`fetch.max.bytes`).

A rule names frames (brokers, API, client id, requests or answers, a topic or partition that the request names) and an
act:

| act         | effect                                                                                              |
|-------------|-----------------------------------------------------------------------------------------------------|
| `drop`      | The frame disappears; the connection stays open.                                                    |
| `delay`     | The frame waits, with everything behind it on the same connection and direction (TCP keeps order).  |
| `hold`      | As `delay`, until a frame of another set has passed, at any broker, and at most for a time.         |
| `cut`       | The connection closes instead of passing the frame on.                                              |
| `error`     | A request gets an answer with an error code from the proxy, in its turn, and does not reach the     |
|             | broker; or an answer of the broker gets the code, for the partitions of the rule.                   |
| `repeat`    | An answer is sent twice, with the same correlation id.                                              |
| `duplicate` | An answer to Fetch has each batch of records twice, and markers of transactions once.               |
| `corrupt`   | One bit of a value changes, in an answer to Fetch or a Produce request; the checksum stays, or      |
|             | becomes the checksum of the changed bytes.                                                          |
| `slow`      | Every byte on the link to the broker takes longer: half of `latency_s` in each direction, and a     |
|             | bandwidth that all connections to the broker share.                                                 |

The first rule that matches decides. Each rule counts the frames that it hits; after `count` hits it matches no more.
When a rule is removed, the frames that it holds pass at once and in order.

For a rule with a topic or an error the proxy reads whole requests of the kind that the rule names. It knows the
topics of topic ids from answers to Metadata that it passes on. If rules select Fetch requests by topic, it reads all
of them from the start of the run (`sessions`), because a request of a fetch session (KIP-227) names only what changes.
The topics of a request that it cannot decode, or that it passed before the rule was there, are unknown: no rule with a
topic matches it or its answer. A frame to which an error or a change of records makes no difference is no hit; a
Produce request with acks=0 gets no answer, and passes.

A frame that a rule holds waits for one that the proxy sends on later. It counts as `released` only if that one let it
pass, before its time was over.
A held request passes also after its client has closed the connection (`outlived` counts such connections): the proxy
then keeps the connection to the broker until the broker has answered, at most 10 s, so that the broker certainly
handles it.

### Fronts and capture

A front is a set of ports of the proxy, one for each broker, for one process: the proxy knows by the port who speaks.
Answers on a front have the addresses of that front. Each instance of an application has a front, and each client
process, if the scenario has `capture`; `chaos.relay.capture` writes down what passes there. While a broker is down, its
ports refuse connections, as the broker would; only the first client after its end sees a reset in place of that.

### Moments

At each front the proxy keeps the last step of its process (`chaos.relay.roles.StepApi`): the last Produce, commit,
request of a group's membership or of a transaction, or the answer to one. A moment is a request or answer together
with the step before it, such as "OffsetCommit request after Produce response". A rule may name a moment (`after`) and
pass the first ones (`skip`), so that a run can hold the third commit of an application and kill its process then. The
proxy counts the moments of each front. A new process there begins without a step (`begin`).

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
| `{"do": "hits", "id": 1}`                | `{"hits": 7, "released": 0, "outlived": 0}`: frames        |
|                                          | (rules), or pieces of data (cuts)                          |
| `{"do": "remove", "id": 1}`              | the same; with `"lose": true` the frames that the rule     |
|                                          | holds are lost with their connections                      |
| `{"do": "front", "name": "shop/1"}`      | `{"addresses": {"1": […]}}`; the first such order opens it |
| `{"do": "broker", "broker": 4, …}`       | `{"addresses": {"shop/1": […]}}`; the proxy goes on in     |
|                                          | front of a broker that is new, or has another address      |
| `{"do": "seal"}`                         | the seal of the capture, which ends                        |
| `{"do": "status"}`                       | `{"active": […], "ports": […]}`, with the Fetch requests   |
|                                          | by client at each port of the proxy                        |
| `{"do": "moments"}`                      | `{"shop/1": [["Produce response", "OffsetCommit request",  |
|                                          | 12], …]}`: how often each moment came after each step      |
| `{"do": "steps"}`                        | `{"shop/1": "OffsetCommit response"}`: the last step there |
| `{"do": "members"}`                      | `{"shop/1": [["billing", "consumer-1-…"]]}`: the group and |
|                                          | id of each dynamic member that the process there was       |
| `{"do": "begin", "front": "shop/1"}`     | `{}`; a new process begins there, without a step           |

An invalid order gives `{"error": "…"}`. A rule or cut ends with the control connection that added it, so a process that
dies leaves none behind. The process environment carries the role (`AFTERSHOCK_ROLE`), so that `ps`, `gc` and the reaper
find the relay.
"""
