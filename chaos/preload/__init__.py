"""Libraries that a process loads before all others, to change what the system says to it or does for it.

`clock.c` gives it a clock that is wrong, `disk.c` a disk that is slow. They are compiled at first use into the user's
cache, with the C compiler of the machine. A process loads them by LD_PRELOAD, which needs no privileges and concerns
this process only. Each finds its control file by an environment variable and maps it, so a change takes effect at once.
Only nodes, and clients, of a scenario with such a fault load them.

What a broker calls for its data, by strace with Java 17 and Kafka 4.3.1: `write` for logs and checkpoints, `fsync` for
them and for directories, `msync` for indexes, which are mapped, and `ftruncate` for new indexes. `writev` is for
sockets, and `fallocate` is not called. A flush of a segment is one `fsync` and two `msync`.
While no disk is slow, a write costs 1.00 times the CPU time of one without the library, for one byte and for 16 KiB
(`tests/bench/bench_disk.py`).

The clock: why not libfaketime, measured with Java 17 on this project's machines:

| | without | `clock.c` | libfaketime 0.9.10 (wheel 3.0.1) |
|---|---|---|---|
| System.currentTimeMillis, time per call | 1 | 1.1 to 1.7 | 17 to 20 |
| System.nanoTime | 1 | 1 | 3 to 10 |
| a change takes effect | | at once | after up to 1 s (file read again) |

libfaketime parses its file in the thread that asks for the time, in variables that all threads share, and ends the
process if the text makes no sense. With FAKETIME_NO_CACHE, a JVM ended that way within seconds, at 300 times the cost
for each call. A node that ends by the tool itself would be judged as a finding.

With `clock.c`, in the JVM: currentTimeMillis and Instant.now show the wrong clock; nanoTime, Thread.sleep, Object.wait,
and waits of java.util.concurrent with a time-out keep their length through jumps of an hour in both directions;
LockSupport.parkUntil waits for the moment at which the wrong clock shows its time. A wait that has begun does not end
early when the clock jumps over its end.
"""
