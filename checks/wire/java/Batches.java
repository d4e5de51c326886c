package aftershock.wire;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.function.Consumer;
import net.jpountz.xxhash.XXHash64;
import net.jpountz.xxhash.XXHashFactory;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;

/** The headers of the record batches of one partition in a Produce request or an answer to Fetch. */
final class Batches {
  private static final int OVERHEAD = 12, HEADER = 61, HEADER_OLD = 18;

  /** One batch, or one message of a format before Kafka 0.11. Offsets are those of the log, or 0 for a request. */
  record Batch(
      long baseOffset, long lastOffset, int records, int leaderEpoch, long producerId, int epoch, int baseSequence,
      boolean transactional, String control, long crc, int magic, String compression, Long baseTimestampUs,
      Long maxTimestampUs, boolean appendTime, boolean complete, int bytes, byte[] hashes, byte[] timestampsUs) {}

  /** Pass each batch on. records: of the partition, null if there are none; entry: says what of them was kept. */
  static void each(Object records, Decode.Entry entry, boolean hashed, Consumer<Batch> out) {
    if (!(records instanceof MemoryRecords)) return;
    ByteBuffer all = ((MemoryRecords) records).buffer().duplicate();
    int at = all.position(), end = all.limit();
    while (end - at >= HEADER_OLD) {
      int size = OVERHEAD + all.getInt(at + 8);
      int magic = all.get(at + 16);
      if (size <= OVERHEAD || (magic >= 2 && end - at < HEADER)) return;
      boolean complete = at + size <= end;
      out.accept(magic >= 2 ? batch(all, at, size, magic, complete, entry, hashed) : old(all, at, size, magic, complete));
      at += size;
    }
  }

  private static Batch batch(
      ByteBuffer all, int at, int size, int magic, boolean complete, Decode.Entry entry, boolean hashed) {
    int attributes = all.getShort(at + 21), count = all.getInt(at + 57);
    long base = all.getLong(at);
    boolean control = (attributes & 0x20) != 0;
    // an entry lays its frame out in an array of its own, so the index in the frame follows from the offsets
    boolean whole = complete && entry.whole(all.arrayOffset() + at - entry.frame.arrayOffset(), size);
    MemoryRecords own = whole && (control || hashed) ? records(all, at, size) : null;
    byte[][] identities = own != null && hashed && !control ? identities(own, count) : new byte[2][];
    return new Batch(
        base, base + all.getInt(at + 23), count, all.getInt(at + 12), all.getLong(at + 43), all.getShort(at + 51),
        all.getInt(at + 53), (attributes & 0x10) != 0, control ? marker(own) : null, all.getInt(at + 17) & 0xffffffffL,
        magic, compression(attributes), Tables.us(all.getLong(at + 27)), Tables.us(all.getLong(at + 35)),
        (attributes & 0x08) != 0, complete, size, identities[0], identities[1]);
  }

  private static Batch old(ByteBuffer all, int at, int size, int magic, boolean complete) {
    int attributes = all.get(at + 17);
    Long timestamp = magic == 1 && all.limit() - at >= 26 ? Tables.us(all.getLong(at + 18)) : null;
    boolean compressed = (attributes & 7) != 0; // then one message holds several
    return new Batch(
        all.getLong(at), all.getLong(at), compressed ? -1 : 1, -1, -1, -1, -1, false, null,
        all.getInt(at + 12) & 0xffffffffL, magic, compression(attributes), timestamp, timestamp,
        (attributes & 0x08) != 0, complete, size, null, null);
  }

  private static MemoryRecords records(ByteBuffer all, int at, int size) {
    return MemoryRecords.readableRecords(all.duplicate().position(at).limit(at + size).slice());
  }

  private static String compression(int attributes) {
    String[] names = {"none", "gzip", "snappy", "lz4", "zstd"};
    return (attributes & 7) < names.length ? names[attributes & 7] : "unknown";
  }

  private static String marker(MemoryRecords own) {
    if (own == null) return "unknown";
    for (Record record : own.records()) {
      return ControlRecordType.parse(record.key()).name().toLowerCase();
    }
    return "unknown";
  }

  /**
   * Return a hash of key, value and headers, and the timestamp in us, of each record: numbers of eight bytes, little
   * endian, one after the other, because Spark handles arrays number by number.
   */
  private static byte[][] identities(MemoryRecords own, int count) {
    ByteBuffer hashes = numbers(count), times = numbers(count);
    Content content = new Content();
    try {
      for (Record record : own.records()) {
        if (!hashes.hasRemaining()) break;
        hashes.putLong(content.hash(record));
        times.putLong(record.timestamp() * 1000);
      }
    } catch (RuntimeException e) {
      return new byte[2][]; // corrupt, or compressed by something unknown: the batch has its checksum
    }
    return new byte[][] {hashes.array(), times.array()};
  }

  private static ByteBuffer numbers(int count) {
    return ByteBuffer.allocate(Long.BYTES * Math.max(0, count)).order(ByteOrder.LITTLE_ENDIAN);
  }

  /** Key, value and headers of a record, each behind its length. */
  private static final class Content {
    private static final XXHash64 HASH = XXHashFactory.fastestJavaInstance().hash64();
    private ByteBuffer all = ByteBuffer.allocate(1 << 12);

    long hash(Record record) {
      all.clear();
      add(record.hasKey() ? record.key() : null);
      add(record.hasValue() ? record.value() : null);
      for (Header header : record.headers()) {
        add(ByteBuffer.wrap(header.key().getBytes()));
        add(header.value() == null ? null : ByteBuffer.wrap(header.value()));
      }
      return HASH.hash(all.array(), 0, all.position(), 0);
    }

    private void add(ByteBuffer bytes) {
      int size = bytes == null ? 0 : bytes.remaining();
      if (all.remaining() < Integer.BYTES + size) {
        all = ByteBuffer.allocate(2 * (all.capacity() + size)).put(all.flip());
      }
      all.putInt(bytes == null ? -1 : size);
      if (bytes != null) all.put(bytes);
    }
  }

  private Batches() {}
}
