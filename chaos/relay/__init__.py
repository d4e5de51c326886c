"""The wire proxy: one process between the clients of a run and its brokers, which breaks what passes.

It needs no root and no driver in particular: any plaintext listener will do, with or without SASL, of brokers that a
driver made or of a cluster that exists. TLS cannot be read on its way, so a scenario with TLS is refused at load.

**Who goes through it.** Clients get its bootstrap servers instead of the cluster's, and it puts its own addresses in
place of the brokers' wherever an answer names them (Metadata, FindCoordinator, DescribeCluster, the new leader in an
answer to Produce): so they never learn of another way. Advertising its ports instead would need a listener more on
each broker and none of it would work on a cluster that exists. The observer, read-back and the faults' own questions
go to the brokers directly, by the addresses that `cluster.json` holds: during a cut they have to see the truth.

**What it changes although no rule is active.** Two things, both in the answer to ApiVersions, and both only so that no
address escapes. Versions of the rewritten requests that kafka-python does not know are not offered. Fetch is offered up
to version 15, without the hint at a new leader that version 16 added (KIP-951): an answer that may be 50 MiB would have
to be held to its last byte to find it there. A consumer learns of a new leader by Metadata then, as all did before.
Share groups are not offered.

**What it reads.** Of each frame the length, and behind it api key, version, correlation id and client id, or the
correlation id of an answer. The rest is passed on as it came, in the pieces in which it came. Only the answers above
are held until they are whole, and decoded.

**Rules.** A rule says which frames it means (broker, api, client id, requests or answers) and what becomes of them:
`drop` (swallowed, the connection stays), `delay` (held, and all behind it on this connection too, for TCP keeps the
order), `cut` (the connection is closed in its place). Of several rules the first decides that matches and is not used
up. A rule counts what it hit; with `count` it is used up after so many. `slow` rules are of links: latency (half of it
in each direction) and bandwidth, shared by all connections to the broker. What a rule holds when it is removed passes
at once, in order.

**Between brokers** stands another process, the switch, where a scenario cuts links (`broker.isolate`, `link.cut`) of
the process driver. All listeners of the brokers (clients', peers', quorum's) are advertised at ports of its own, so
nothing reaches a broker by another way. It reads the first request header of each connection that a broker makes,
remembers whose it is, and then passes bytes on unread. What goes a way that is cut is held, not swallowed, and arrives
after the cut: so does what TCP sends again after packets were lost, and a peer that waits need not run into its
time-out. While one direction of a link is cut no new connection comes about, as with TCP's handshake. A connection to
the brokers' own listeners that names no broker is held while anybody is cut off from the broker it goes to, and told
of in the log: it might be the one that must not pass. (None was seen with 4.3.1 and 3.9.2; `chaos.relay.cuts` has the
names.)

**Control.** JSON lines over the Unix socket `proxy.sock` in the run directory: `{"do": "add", "rule": {...}}` gives
`{"id": 1}`, `{"do": "matches", "id": 1}` and `{"do": "remove", "id": 1}` give `{"matches": 7}`. A rule ends with the
connection that made it, and all end with the proxy: nothing is left behind, whoever is killed. The proxy is one more
process of the run, marked `proxy`, so that `ps`, `gc` and the reaper know it; the switch (`switch.sock`: `cut`, `mend`,
`held`, `seen`) another.

Where a broker is gone, so is what stands for it: a connection is closed as soon as the broker refuses it.
"""
