package aftershock.wire;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Segments of a capture (chaos/relay/capture.py) as tables, with Kafka's generated message classes.
 *
 * <p>{@code parts} is called from Python. It reads each entry once, for all tables. A frame that a table has, of a version that these classes do not know, or that was
 * not kept, is a row of the table {@code unread}. No table has answers to ApiVersions: one with an error has version 0,
 * whatever was asked (KIP-511).
 */
public final class Decode {
  static final int ACCEPTED = 1, CLOSED = 2, REQUEST = 3, ANSWER = 4;
  static final int MADE = 1, UNKEPT = 2, AGAIN = 4;
  private static final byte[] MAGIC = "ASWIRE1\n".getBytes();
  private static final int ENTRY = 44, HOLE = 8;
  private static final String UNREAD = "unread";

  /** What a table makes of one entry: rows without the columns that all tables have. */
  interface Reader {
    void read(Entry entry, ApiMessage message, List<Object[]> rows);
  }

  /** A table: the kind of its entries, whether their frames are decoded, what they ask for or answer, and the reader. */
  record Table(int kind, boolean decoded, List<Integer> apis, Reader reader) {
    boolean has(Entry entry) {
      if (kind == ACCEPTED) return entry.kind <= CLOSED;
      return kind == entry.kind && apis.contains((int) entry.api);
    }
  }

  private static final Map<String, Table> TABLES = Tables.all();

  /** What gets the rows of one segment: the name of the table, the entry, and the values. */
  interface Sink {
    void add(String table, Entry entry, Object[] values);
  }

  /**
   * Return the tables in parts: `task` (of its connections), `name` of the table, and `rows` as an Arrow stream.
   *
   * @param files one row for each segment, with its content
   * @param ddl a struct for each table that is wanted: the columns that all tables have, and then its own ones
   * @param tasks how many there are: the rows of a connection go to one
   */
  public static Dataset<Row> parts(Dataset<Row> files, String ddl, int tasks) {
    StructType tables = StructType.fromDDL(ddl);
    JavaRDD<InternalRow> parts = files.javaRDD().flatMap(file -> partsOf((byte[]) file.get(0), tables, tasks));
    StructType schema = StructType.fromDDL("task int, name string, rows binary");
    return ((SparkSession) files.sparkSession()).internalCreateDataFrame(parts.rdd(), schema, false);
  }

  private static Iterator<InternalRow> partsOf(byte[] content, StructType tables, int tasks) throws IOException {
    Map<List<Object>, Part> parts = new LinkedHashMap<>();
    try {
      new Segment(content, Set.of(tables.fieldNames())).read((table, entry, values) -> {
        int task = Math.floorMod(entry.connection, tasks);
        parts.computeIfAbsent(List.of(task, table), key -> new Part((StructType) tables.apply(table).dataType()))
            .add(entry, values);
      });
      List<InternalRow> rows = new ArrayList<>();
      for (var part : parts.entrySet()) {
        List<Object> key = part.getKey();
        rows.add((InternalRow) internal(new Object[] {key.get(0), key.get(1), part.getValue().bytes()}));
      }
      return rows.iterator();
    } finally {
      parts.values().forEach(Part::close);
    }
  }

  /** Rows of one table as an Arrow stream: Python reads it without a look at each value. */
  private static final class Part {
    private final VectorSchemaRoot root;
    private final ArrowWriter writer;

    Part(StructType schema) {
      root = VectorSchemaRoot.create(ArrowUtils.toArrowSchema(schema, "UTC", true, false), ArrowUtils.rootAllocator());
      writer = ArrowWriter.create(root);
    }

    void add(Entry entry, Object[] values) {
      Long passed = entry.passed == 0 ? null : (Long) entry.passed;
      Object[] common = {entry.connection, entry.number, entry.seen, passed, (entry.flags & MADE) != 0};
      Object[] row = Arrays.copyOf(common, common.length + values.length);
      System.arraycopy(values, 0, row, common.length, values.length);
      writer.write((InternalRow) internal(row));
    }

    byte[] bytes() throws IOException {
      writer.finish();
      ByteArrayOutputStream stream = new ByteArrayOutputStream();
      try (ArrowStreamWriter out = new ArrowStreamWriter(root, null, stream)) {
        out.writeBatch();
      }
      return stream.toByteArray();
    }

    void close() {
      root.close();
    }
  }

  /** Return a value as Spark has it inside: an encoder of so many columns costs more than decoding. */
  private static Object internal(Object value) {
    if (value instanceof String text) return UTF8String.fromString(text);
    if (value instanceof List<?> list) return new GenericArrayData(list.stream().map(Decode::internal).toArray());
    if (value instanceof Object[] fields) {
      return new GenericInternalRow(Arrays.stream(fields).map(Decode::internal).toArray());
    }
    return value;
  }

  private Decode() {}

  /** One entry of a segment. */
  static final class Entry {
    int kind, flags, connection, number, version, size, holes, holesAt, keptAt, end;
    short api;
    long seen, passed;
    /** The header of a request. */
    String client;
    /** The frame, with arbitrary bytes in its holes. */
    ByteBuffer frame;

    private final byte[] content;
    private final ByteBuffer fields;
    private byte[] space = new byte[1 << 16];

    Entry(byte[] content) {
      this.content = content;
      fields = ByteBuffer.wrap(content);
    }

    /** Read the fields of the entry at an index. Returns whether it is complete. */
    boolean at(int at) {
      if (at + ENTRY > content.length) return false;
      end = at + 4 + fields.getInt(at);
      if (end > content.length) return false;
      kind = fields.get(at + 4);
      flags = fields.get(at + 5);
      holes = fields.getShort(at + 6) & 0xffff;
      connection = fields.getInt(at + 8);
      number = fields.getInt(at + 12);
      seen = fields.getLong(at + 16);
      passed = fields.getLong(at + 24);
      api = fields.getShort(at + 32);
      version = fields.getShort(at + 34);
      size = fields.getInt(at + 40);
      holesAt = at + ENTRY;
      keptAt = holesAt + holes * HOLE;
      client = null;
      return true;
    }

    String text() {
      return new String(content, keptAt, end - keptAt);
    }

    /** Lay the kept bytes out as in the frame. */
    void layOut() {
      if (holes == 0) {
        frame = ByteBuffer.wrap(content, keptAt, end - keptAt).slice();
        return;
      }
      if (space.length < size) space = new byte[Math.max(size, 2 * space.length)];
      int from = keptAt, to = 0;
      for (int i = 0; i < holes; i++) {
        int begin = fields.getInt(holesAt + i * HOLE);
        System.arraycopy(content, from, space, to, begin - to);
        from += begin - to;
        to = begin + fields.getInt(holesAt + i * HOLE + 4);
      }
      System.arraycopy(content, from, space, to, end - from);
      frame = ByteBuffer.wrap(space, 0, size).slice();
    }

    /** Return whether nothing is left out of this part of the frame. */
    boolean whole(int begin, int length) {
      for (int i = 0; i < holes; i++) {
        int hole = fields.getInt(holesAt + i * HOLE);
        if (hole < begin + length && hole + fields.getInt(holesAt + i * HOLE + 4) > begin) return false;
      }
      return true;
    }

    /** Return the message in the frame. Raises RuntimeException if these classes cannot decode it. */
    ApiMessage message() {
      layOut();
      ApiMessageType type = ApiMessageType.fromApiKey(api);
      ByteBufferAccessor readable = new ByteBufferAccessor(frame);
      readable.readInt();
      if (kind == REQUEST) {
        client = new RequestHeaderData(readable, type.requestHeaderVersion((short) version)).clientId();
      } else {
        new ResponseHeaderData(readable, type.responseHeaderVersion((short) version));
      }
      ApiMessage message = kind == REQUEST ? type.newRequest() : type.newResponse();
      if (version < message.lowestSupportedVersion() || version > message.highestSupportedVersion()) {
        throw new IllegalArgumentException("version " + version);
      }
      message.read(readable, (short) version);
      return message;
    }
  }

  /** One segment. */
  private static final class Segment {
    private final Entry entry;
    private final Set<String> wanted;
    private final Map<String, Table> tables = new HashMap<>(TABLES);
    private final int length;

    Segment(byte[] content, Set<String> wanted) {
      entry = new Entry(content);
      length = content.length;
      this.wanted = wanted;
      tables.keySet().retainAll(wanted);
      if (length >= MAGIC.length && ByteBuffer.wrap(content).getLong() != ByteBuffer.wrap(MAGIC).getLong()) {
        throw new IllegalArgumentException("no segment of a capture");
      }
    }

    /** Read the entries, up to the last complete one. */
    void read(Sink sink) {
      for (int at = MAGIC.length; entry.at(at); at = entry.end) {
        if ((entry.flags & AGAIN) != 0) continue; // a request has one answer, however often a fault sends it
        read(false, null, sink);
        if (tables.values().stream().anyMatch(table -> table.decoded && table.has(entry))) readMessage(sink);
      }
    }

    /** Read what stands in the frame. */
    private void readMessage(Sink sink) {
      String why = "it was not kept";
      if ((entry.flags & UNKEPT) == 0) {
        try {
          List<Runnable> found = new ArrayList<>();
          read(true, entry.message(), (table, from, values) -> found.add(() -> sink.add(table, from, values)));
          found.forEach(Runnable::run); // all rows of a frame or none
          return;
        } catch (RuntimeException e) {
          why = String.valueOf(e.getMessage());
        }
      }
      if (entry.kind == ANSWER && entry.passed == 0) return; // the client never got it, whatever it was
      if (!wanted.contains(UNREAD)) return;
      String side = entry.kind == REQUEST ? "request" : "answer";
      sink.add(UNREAD, entry, new Object[] {side, (int) entry.api, entry.version, why});
    }

    private void read(boolean decoded, ApiMessage message, Sink sink) {
      tables.forEach((name, table) -> {
        if (table.decoded() != decoded || !table.has(entry)) return;
        List<Object[]> found = new ArrayList<>();
        table.reader().read(entry, message, found);
        found.forEach(values -> sink.add(name, entry, values));
      });
    }
  }
}
