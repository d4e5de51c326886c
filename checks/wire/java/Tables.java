package aftershock.wire;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.ApiMessage;

/** The tables that {@link Decode} knows. The columns stand in checks/wire/tables.py, in the same order. */
final class Tables {
  static final int PRODUCE = 0, FETCH = 1, METADATA = 3, OFFSET_COMMIT = 8, OFFSET_FETCH = 9, JOIN = 11,
      HEARTBEAT = 12, LEAVE = 13, SYNC = 14, VERSIONS = 18, INIT_PRODUCER = 22, ADD_PARTITIONS = 24,
      ADD_OFFSETS = 25, END_TXN = 26, TXN_COMMIT = 28, CONSUMER_HEARTBEAT = 68, SHARE_HEARTBEAT = 76, SHARE_FETCH = 78,
      SHARE_ACKNOWLEDGE = 79;
  private static final List<Integer> COMMITS = List.of(OFFSET_COMMIT, TXN_COMMIT);
  private static final List<Integer> MEMBERSHIP =
      List.of(JOIN, SYNC, HEARTBEAT, LEAVE, CONSUMER_HEARTBEAT, SHARE_HEARTBEAT);
  private static final List<Integer> TRANSACTIONS = List.of(INIT_PRODUCER, ADD_PARTITIONS, ADD_OFFSETS, END_TXN);
  private static final List<Integer> SHARES = List.of(SHARE_FETCH, SHARE_ACKNOWLEDGE);

  static Map<String, Decode.Table> all() {
    int request = Decode.REQUEST, answer = Decode.ANSWER;
    Map<String, Decode.Table> tables = new HashMap<>();
    tables.put("connections", new Decode.Table(Decode.ACCEPTED, false, List.of(), Tables::connection));
    tables.put("announced", new Decode.Table(request, true, List.of(VERSIONS, METADATA), Tables::announced));
    tables.put("fetches", new Decode.Table(request, false, List.of(FETCH), Tables::version));
    tables.put("share_answers", new Decode.Table(answer, false, SHARES, Tables::version));
    tables.put("topics", new Decode.Table(answer, true, List.of(METADATA), Tables::topics));
    tables.put("produce_requests", new Decode.Table(request, true, List.of(PRODUCE), Tables::produceRequest));
    tables.put("produce_answers", new Decode.Table(answer, true, List.of(PRODUCE), Tables::produceAnswer));
    tables.put("fetch_requests", new Decode.Table(request, true, List.of(FETCH), Tables::fetchRequest));
    tables.put("fetch_answers", new Decode.Table(answer, true, List.of(FETCH), Tables::fetchAnswer));
    tables.put("commit_requests", new Decode.Table(request, true, COMMITS, Tables::commitRequest));
    tables.put("commit_answers", new Decode.Table(answer, true, COMMITS, Tables::commitAnswer));
    tables.put("position_requests", new Decode.Table(request, true, List.of(OFFSET_FETCH), Tables::positionRequest));
    tables.put("position_answers", new Decode.Table(answer, true, List.of(OFFSET_FETCH), Tables::positions));
    tables.put("membership_requests", new Decode.Table(request, true, MEMBERSHIP, Tables::memberRequest));
    tables.put("membership_answers", new Decode.Table(answer, true, MEMBERSHIP, Tables::memberAnswer));
    tables.put("transaction_requests", new Decode.Table(request, true, TRANSACTIONS, Tables::transactionRequest));
    tables.put("transaction_answers", new Decode.Table(answer, true, TRANSACTIONS, Tables::transactionAnswer));
    tables.put("acquired", new Decode.Table(answer, true, List.of(SHARE_FETCH), Tables::acquired));
    tables.put("acknowledge_requests", new Decode.Table(request, true, SHARES, Tables::acknowledgeRequest));
    tables.put("acknowledge_answers", new Decode.Table(answer, true, SHARES, Tables::acknowledgeAnswer));
    return tables;
  }

  private static void connection(Decode.Entry entry, ApiMessage none, List<Object[]> rows) {
    rows.add(row(entry.kind == Decode.ACCEPTED ? "accepted" : "closed", entry.text()));
  }

  /** A row for a request or an answer with nothing in it that a table wants, so that its times are known. */
  private static void version(Decode.Entry entry, ApiMessage none, List<Object[]> rows) {
    rows.add(row(entry.version));
  }

  /** Old clients never ask for versions; Metadata at least has their client id. */
  private static void announced(Decode.Entry entry, ApiMessage message, List<Object[]> rows) {
    var m = message instanceof ApiVersionsRequestData asked ? asked : new ApiVersionsRequestData();
    rows.add(row(entry.client, text(m.clientSoftwareName()), text(m.clientSoftwareVersion())));
  }

  private static void topics(Decode.Entry entry, ApiMessage message, List<Object[]> rows) {
    for (var topic : ((MetadataResponseData) message).topics()) {
      if (id(topic.topicId()) != null && topic.name() != null) rows.add(row(topic.name(), id(topic.topicId())));
    }
  }

  private static void produceRequest(Decode.Entry entry, ApiMessage message, List<Object[]> rows) {
    var m = (ProduceRequestData) message;
    for (var topic : m.topicData()) {
      for (var p : topic.partitionData()) {
        int before = rows.size();
        Batches.each(p.records(), entry, true, b -> rows.add(row(
            rows.size() - before, entry.client, (int) m.acks(), m.transactionalId(), text(topic.name()), id(topic.topicId()), p.index(),
            b.producerId() < 0 ? null : b.producerId(), b.producerId() < 0 ? null : b.epoch(),
            b.producerId() < 0 ? null : b.baseSequence(), b.records() < 0 ? null : b.records(), b.transactional(),
            b.baseTimestampUs(), b.maxTimestampUs(), b.crc(), b.magic(), b.compression(), b.bytes(), b.hashes(),
            b.timestampsUs())));
      }
    }
  }

  private static void produceAnswer(Decode.Entry entry, ApiMessage message, List<Object[]> rows) {
    for (var topic : ((ProduceResponseData) message).responses()) {
      for (var p : topic.partitionResponses()) {
        rows.add(row(
            text(topic.name()), id(topic.topicId()), p.index(), (int) p.errorCode(), positive(p.baseOffset()),
            us(positive(p.logAppendTimeMs())), positive(p.logStartOffset())));
      }
    }
  }

  private static void fetchRequest(Decode.Entry entry, ApiMessage message, List<Object[]> rows) {
    var m = (FetchRequestData) message;
    boolean all = entry.version < 7 || m.sessionEpoch() == 0 || m.sessionEpoch() == -1;
    for (var topic : m.topics()) {
      for (var p : topic.partitions()) {
        rows.add(row(
            m.sessionId(), m.sessionEpoch(), all, (int) m.isolationLevel(), text(topic.topic()), id(topic.topicId()),
            p.partition(), p.fetchOffset(), p.currentLeaderEpoch()));
      }
    }
  }

  private static void fetchAnswer(Decode.Entry entry, ApiMessage message, List<Object[]> rows) {
    for (var topic : ((FetchResponseData) message).responses()) {
      for (var p : topic.partitions()) {
        List<Object[]> aborted = new ArrayList<>();
        if (p.abortedTransactions() != null) {
          p.abortedTransactions().forEach(a -> aborted.add(row(a.producerId(), a.firstOffset())));
        }
        Object[] where = row(
            text(topic.topic()), id(topic.topicId()), p.partitionIndex(), (int) p.errorCode(),
            positive(p.highWatermark()), positive(p.lastStableOffset()), positive(p.logStartOffset()), aborted);
        int before = rows.size();
        Batches.each(p.records(), entry, true, b -> rows.add(joined(where, row(
            b.baseOffset(), b.lastOffset(), b.records() < 0 ? null : b.records(), b.leaderEpoch(),
            b.producerId() < 0 ? null : b.producerId(), b.producerId() < 0 ? null : b.epoch(),
            b.producerId() < 0 ? null : b.baseSequence(), b.transactional(), b.control(), b.crc(), b.magic(),
            b.compression(), b.baseTimestampUs(), b.maxTimestampUs(), b.appendTime(), b.complete(), b.hashes(),
            b.timestampsUs()))));
        if (rows.size() == before && p.errorCode() != 0) rows.add(joined(where, new Object[18]));
      }
    }
  }

  private static void commitRequest(Decode.Entry entry, ApiMessage message, List<Object[]> rows) {
    if (message instanceof OffsetCommitRequestData m) {
      for (var t : m.topics()) {
        for (var p : t.partitions()) {
          rows.add(row(
              m.groupId(), text(m.memberId()), m.groupInstanceId(), m.generationIdOrMemberEpoch(), null, null, null,
              text(t.name()), id(t.topicId()), p.partitionIndex(), p.committedOffset(), p.committedLeaderEpoch(),
              text(p.committedMetadata())));
        }
      }
    } else if (message instanceof TxnOffsetCommitRequestData m) {
      for (var t : m.topics()) {
        for (var p : t.partitions()) {
          rows.add(row(
              m.groupId(), text(m.memberId()), m.groupInstanceId(), m.generationIdOrMemberEpoch(), m.transactionalId(),
              m.producerId(), (int) m.producerEpoch(), text(t.name()), id(t.topicId()), p.partitionIndex(),
              p.committedOffset(), p.committedLeaderEpoch(), text(p.committedMetadata())));
        }
      }
    }
  }

  private static void commitAnswer(Decode.Entry entry, ApiMessage message, List<Object[]> rows) {
    if (message instanceof OffsetCommitResponseData m) {
      for (var t : m.topics()) {
        for (var p : t.partitions()) rows.add(row(text(t.name()), id(t.topicId()), p.partitionIndex(), (int) p.errorCode()));
      }
    } else if (message instanceof TxnOffsetCommitResponseData m) {
      for (var t : m.topics()) {
        for (var p : t.partitions()) rows.add(row(text(t.name()), id(t.topicId()), p.partitionIndex(), (int) p.errorCode()));
      }
    }
  }

  /** The group of a request that names one: up to version 7, its answer does not. */
  private static void positionRequest(Decode.Entry entry, ApiMessage message, List<Object[]> rows) {
    if (entry.version < 8) rows.add(row(((OffsetFetchRequestData) message).groupId()));
  }

  private static void positions(Decode.Entry entry, ApiMessage message, List<Object[]> rows) {
    var m = (OffsetFetchResponseData) message;
    for (var t : m.topics()) {
      for (var p : t.partitions()) {
        rows.add(row(
            null, text(t.name()), null, p.partitionIndex(), positive(p.committedOffset()), code(m.errorCode(), p.errorCode())));
      }
    }
    for (var g : m.groups()) {
      for (var t : g.topics()) {
        for (var p : t.partitions()) {
          rows.add(row(
              g.groupId(), text(t.name()), id(t.topicId()), p.partitionIndex(), positive(p.committedOffset()),
              code(g.errorCode(), p.errorCode())));
        }
      }
    }
  }

  private static void memberRequest(Decode.Entry entry, ApiMessage message, List<Object[]> rows) {
    if (message instanceof JoinGroupRequestData m) {
      rows.add(member("JoinGroup", m.groupId(), m.memberId(), m.groupInstanceId(), null, m.sessionTimeoutMs(),
          m.rebalanceTimeoutMs(), subscribed(m), null));
    } else if (message instanceof SyncGroupRequestData m) {
      rows.add(member("SyncGroup", m.groupId(), m.memberId(), m.groupInstanceId(), m.generationId(), null, null, null, null));
    } else if (message instanceof HeartbeatRequestData m) {
      rows.add(member("Heartbeat", m.groupId(), m.memberId(), m.groupInstanceId(), m.generationId(), null, null, null, null));
    } else if (message instanceof LeaveGroupRequestData m) {
      if (!m.memberId().isEmpty()) {
        rows.add(member("LeaveGroup", m.groupId(), m.memberId(), null, null, null, null, null, null));
      }
      for (var one : m.members()) {
        rows.add(member("LeaveGroup", m.groupId(), one.memberId(), one.groupInstanceId(), null, null, null, null, null));
      }
    } else if (message instanceof ConsumerGroupHeartbeatRequestData m) {
      List<Object[]> owned = null;
      if (m.topicPartitions() != null) {
        owned = new ArrayList<>();
        for (var t : m.topicPartitions()) owned.add(row(null, id(t.topicId()), t.partitions()));
      }
      rows.add(member("ConsumerGroupHeartbeat", m.groupId(), m.memberId(), m.instanceId(), m.memberEpoch(), null,
          m.rebalanceTimeoutMs(), m.subscribedTopicNames(), owned));
    } else if (message instanceof ShareGroupHeartbeatRequestData m) {
      rows.add(member("ShareGroupHeartbeat", m.groupId(), m.memberId(), null, m.memberEpoch(), null, null,
          m.subscribedTopicNames(), null));
    }
  }

  private static List<String> subscribed(JoinGroupRequestData m) {
    for (var protocol : m.protocols()) {
      try {
        var subscription = ConsumerProtocol.deserializeSubscription(java.nio.ByteBuffer.wrap(protocol.metadata()));
        return subscription.topics();
      } catch (RuntimeException e) {
        return null; // another type of group, such as one of Connect
      }
    }
    return null;
  }

  private static void memberAnswer(Decode.Entry entry, ApiMessage message, List<Object[]> rows) {
    if (message instanceof JoinGroupResponseData m) {
      List<String> members = new ArrayList<>();
      m.members().forEach(one -> members.add(one.memberId()));
      rows.add(row("JoinGroup", (int) m.errorCode(), text(m.memberId()), m.generationId(), m.protocolName(),
          m.leader().equals(m.memberId()), members, null));
    } else if (message instanceof SyncGroupResponseData m) {
      rows.add(row("SyncGroup", (int) m.errorCode(), null, null, m.protocolName(), null, null,
          m.errorCode() == 0 ? assigned(m.assignment()) : null));
    } else if (message instanceof HeartbeatResponseData m) {
      rows.add(row("Heartbeat", (int) m.errorCode(), null, null, null, null, null, null));
    } else if (message instanceof LeaveGroupResponseData m) {
      int error = m.members().stream().mapToInt(one -> one.errorCode()).filter(code -> code != 0).findFirst().orElse(0);
      rows.add(row("LeaveGroup", m.errorCode() != 0 ? (int) m.errorCode() : error, null, null, null, null, null, null));
    } else if (message instanceof ConsumerGroupHeartbeatResponseData m) {
      List<Object[]> assigned = null;
      if (m.assignment() != null) {
        assigned = new ArrayList<>();
        for (var t : m.assignment().topicPartitions()) {
          assigned.add(row(null, id(t.topicId()), t.partitions()));
        }
      }
      rows.add(row("ConsumerGroupHeartbeat", (int) m.errorCode(), text(m.memberId()), m.memberEpoch(), null, null, null,
          assigned));
    } else if (message instanceof ShareGroupHeartbeatResponseData m) {
      List<Object[]> assigned = null;
      if (m.assignment() != null) {
        assigned = new ArrayList<>();
        for (var t : m.assignment().topicPartitions()) {
          assigned.add(row(null, id(t.topicId()), t.partitions()));
        }
      }
      rows.add(row("ShareGroupHeartbeat", (int) m.errorCode(), text(m.memberId()), m.memberEpoch(), null, null, null,
          assigned));
    }
  }

  /** Return the partitions of a classic assignment; null if it is not one of a consumer. */
  private static List<Object[]> assigned(byte[] assignment) {
    if (assignment.length == 0) return List.of();
    ConsumerPartitionAssignor.Assignment read;
    try {
      read = ConsumerProtocol.deserializeAssignment(java.nio.ByteBuffer.wrap(assignment));
    } catch (RuntimeException e) {
      return null;
    }
    Map<String, List<Integer>> topics = new java.util.TreeMap<>();
    for (TopicPartition p : read.partitions()) topics.computeIfAbsent(p.topic(), t -> new ArrayList<>()).add(p.partition());
    List<Object[]> rows = new ArrayList<>();
    topics.forEach((topic, numbers) -> rows.add(row(topic, null, numbers)));
    return rows;
  }

  private static void transactionRequest(Decode.Entry entry, ApiMessage message, List<Object[]> rows) {
    if (message instanceof InitProducerIdRequestData m) {
      rows.add(row("InitProducerId", m.transactionalId(), positive(m.producerId()),
          m.producerEpoch() < 0 ? null : (int) m.producerEpoch(), null, null, null));
    } else if (message instanceof AddPartitionsToTxnRequestData m) {
      List<Object[]> topics = new ArrayList<>();
      m.v3AndBelowTopics().forEach(t -> topics.add(row(t.name(), null, t.partitions())));
      if (entry.version < 4) {
        rows.add(row("AddPartitionsToTxn", m.v3AndBelowTransactionalId(), m.v3AndBelowProducerId(),
            (int) m.v3AndBelowProducerEpoch(), null, null, topics));
      }
    } else if (message instanceof AddOffsetsToTxnRequestData m) {
      rows.add(row("AddOffsetsToTxn", m.transactionalId(), m.producerId(), (int) m.producerEpoch(), m.groupId(), null, null));
    } else if (message instanceof EndTxnRequestData m) {
      rows.add(row("EndTxn", m.transactionalId(), m.producerId(), (int) m.producerEpoch(), null, m.committed(), null));
    }
  }

  private static void transactionAnswer(Decode.Entry entry, ApiMessage message, List<Object[]> rows) {
    if (message instanceof InitProducerIdResponseData m) {
      rows.add(row("InitProducerId", (int) m.errorCode(), positive(m.producerId()), (int) m.producerEpoch()));
    } else if (message instanceof AddPartitionsToTxnResponseData m) {
      int error = m.errorCode();
      for (var t : m.resultsByTopicV3AndBelow()) {
        for (var p : t.resultsByPartition()) error = error != 0 ? error : p.partitionErrorCode();
      }
      rows.add(row("AddPartitionsToTxn", error, null, null));
    } else if (message instanceof AddOffsetsToTxnResponseData m) {
      rows.add(row("AddOffsetsToTxn", (int) m.errorCode(), null, null));
    } else if (message instanceof EndTxnResponseData m) {
      rows.add(row("EndTxn", (int) m.errorCode(), positive(m.producerId()),
          m.producerEpoch() < 0 ? null : (int) m.producerEpoch()));
    }
  }

  private static void acquired(Decode.Entry entry, ApiMessage message, List<Object[]> rows) {
    var m = (ShareFetchResponseData) message;
    for (var t : m.responses()) {
      for (var p : t.partitions()) {
        for (var range : p.acquiredRecords()) {
          rows.add(row(id(t.topicId()), p.partitionIndex(), range.firstOffset(), range.lastOffset(), (int) range.deliveryCount()));
        }
      }
    }
  }

  private static void acknowledgeRequest(Decode.Entry entry, ApiMessage message, List<Object[]> rows) {
    if (message instanceof ShareFetchRequestData m) {
      for (var t : m.topics()) {
        for (var p : t.partitions()) {
          for (var b : p.acknowledgementBatches()) {
            rows.add(row("ShareFetch", m.groupId(), m.memberId(), m.shareSessionEpoch(), id(t.topicId()), p.partitionIndex(),
                b.firstOffset(), b.lastOffset(), bytes(b.acknowledgeTypes())));
          }
        }
      }
    } else if (message instanceof ShareAcknowledgeRequestData m) {
      for (var t : m.topics()) {
        for (var p : t.partitions()) {
          for (var b : p.acknowledgementBatches()) {
            rows.add(row("ShareAcknowledge", m.groupId(), m.memberId(), m.shareSessionEpoch(), id(t.topicId()),
                p.partitionIndex(), b.firstOffset(), b.lastOffset(), bytes(b.acknowledgeTypes())));
          }
        }
      }
    }
  }

  private static void acknowledgeAnswer(Decode.Entry entry, ApiMessage message, List<Object[]> rows) {
    if (message instanceof ShareFetchResponseData m) {
      if (m.errorCode() != 0) rows.add(row(null, null, (int) m.errorCode()));
      for (var t : m.responses()) {
        for (var p : t.partitions()) rows.add(row(id(t.topicId()), p.partitionIndex(), (int) p.acknowledgeErrorCode()));
      }
    } else if (message instanceof ShareAcknowledgeResponseData m) {
      if (m.errorCode() != 0) rows.add(row(null, null, (int) m.errorCode()));
      for (var t : m.responses()) {
        for (var p : t.partitions()) rows.add(row(id(t.topicId()), p.partitionIndex(), (int) p.errorCode()));
      }
    }
  }

  private static Object[] member(
      String call, String group, String member, String instance, Integer generation, Integer sessionMs,
      Integer rebalanceMs, List<String> subscribed, List<Object[]> owned) {
    Long sessionUs = sessionMs == null ? null : us((long) sessionMs);
    Long rebalanceUs = rebalanceMs == null || rebalanceMs < 0 ? null : us((long) rebalanceMs);
    return row(call, group, text(member), instance, generation, sessionUs, rebalanceUs, subscribed, owned);
  }

  private static int code(int ofAll, int own) {
    return ofAll != 0 ? ofAll : own;
  }

  private static Object[] row(Object... values) {
    return values;
  }

  private static Object[] joined(Object[] first, Object[] second) {
    Object[] both = Arrays.copyOf(first, first.length + second.length);
    System.arraycopy(second, 0, both, first.length, second.length);
    return both;
  }

  private static String text(String value) {
    return value == null || value.isEmpty() ? null : value;
  }

  private static String id(Uuid id) {
    return id == null || id.equals(Uuid.ZERO_UUID) ? null : id.toString();
  }

  static Long us(Long ms) {
    return ms == null ? null : (Long) (ms * 1000);
  }

  private static Long positive(long value) {
    return value < 0 ? null : value;
  }

  private static List<Integer> bytes(List<Byte> numbers) {
    List<Integer> found = new ArrayList<>();
    numbers.forEach(one -> found.add((int) one));
    return found;
  }

  private Tables() {}
}
