package aftershock.wire;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.function.Consumer;
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
      Long maxTimestampUs, boolean appendTime, boolean complete, int bytes, long[] hashes, long[] timestampsUs) {}

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
    long[][] identities = own != null && hashed && !control ? identities(own, count) : new long[2][];
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

  /** Return a hash of key, value and headers, and the timestamp in us, of each record. */
  private static long[][] identities(MemoryRecords own, int count) {
    long[][] found = new long[2][Math.max(0, count)];
    int i = 0;
    try {
      MessageDigest digest = MessageDigest.getInstance("MD5");
      for (Record record : own.records()) {
        if (i == count) break;
        update(digest, record.hasKey() ? record.key() : null);
        update(digest, record.hasValue() ? record.value() : null);
        for (Header header : record.headers()) {
          update(digest, ByteBuffer.wrap(header.key().getBytes()));
          update(digest, header.value() == null ? null : ByteBuffer.wrap(header.value()));
        }
        found[0][i] = ByteBuffer.wrap(digest.digest()).getLong();
        found[1][i++] = record.timestamp() * 1000;
      }
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    } catch (RuntimeException e) {
      return new long[2][]; // corrupt, or compressed by something unknown: the batch has its checksum
    }
    return found;
  }

  private static void update(MessageDigest digest, ByteBuffer bytes) {
    digest.update(ByteBuffer.allocate(4).putInt(0, bytes == null ? -1 : bytes.remaining()));
    if (bytes != null) digest.update(bytes);
  }

  private Batches() {}
}
