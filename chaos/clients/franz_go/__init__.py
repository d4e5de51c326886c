"""The clients that use franz-go, a Go client, 1.19.5 to 1.22.2.

`src` holds what depends on franz-go; `chaos.clients.golang` has the rest of the programs in Go, and compiles them. They
need no other library.

They differ from an application only in this: rebalances wait until a batch is processed (`BlockRebalanceOnPoll`);
where a group has no committed offset, they ask the brokers for the position that `ConsumeResetOffset` means, and begin
there (`AdjustFetchOffsetsFn`); and the revocation callback sends the commit that the library would send without one.
Automatic commits are `GreedyAutoCommit` with `when: before_processing`, else `AutoCommitMarks`. In assign mode the
library has no group, so the programs commit and look up offsets of one with requests of its package kmsg, as its
package kadm does.
"""
