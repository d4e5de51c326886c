package aftershock;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.zip.CRC32;

/** The identity at the start of the value of each record; see chaos.ledger.record. */
record Identity(String producer, long incarnation, long seq, long sentUs) {
    private static final int PRODUCER_AT = 13;
    private static final int INCARNATION_AT = 34;
    private static final int SEQ_AT = 39;
    private static final int TIME_AT = 52;
    private static final int CRC_AT = 69;
    private static final int HEADER_BYTES = 78;

    /** Reads identities. Records of one producer share its name. */
    static final class Parser {
        private byte[] name = {};
        private String producer = "";

        /** Returns the identity in a value; null for a null, foreign or truncated value. */
        Identity of(byte[] value) {
            if (value == null || value.length < HEADER_BYTES || value[0] != 'A' || value[1] != 'S' || value[2] != '1') {
                return null;
            }
            long incarnation = Digits.parse(value, INCARNATION_AT, 4);
            long seq = Digits.parse(value, SEQ_AT, 12);
            long sentUs = Digits.parse(value, TIME_AT, 16);
            if (incarnation < 0 || seq < 0 || sentUs < 0) {
                return null;
            }
            if (!Arrays.equals(value, PRODUCER_AT, INCARNATION_AT - 1, name, 0, name.length)) {
                name = Arrays.copyOfRange(value, PRODUCER_AT, INCARNATION_AT - 1);
                producer = new String(name, StandardCharsets.US_ASCII).stripTrailing();
            }
            return new Identity(producer, incarnation, seq, sentUs);
        }
    }

    /** Makes the values of one incarnation of a client. */
    static final class Factory {
        private final byte[] template;

        Factory(Spec spec) {
            byte[] pattern = "abcdefghijklmnopqrstuvwxyz0123456789".getBytes(StandardCharsets.US_ASCII);
            template = new byte[(int) spec.number("value_size")];
            for (int i = HEADER_BYTES; i < template.length; i++) {
                template[i] = pattern[(i - HEADER_BYTES) % pattern.length];
            }
            String head = String.format(
                    "AS1 %s %-20s %04d ", spec.text("run_token"), spec.client(), spec.incarnation());
            byte[] bytes = head.getBytes(StandardCharsets.US_ASCII);
            System.arraycopy(bytes, 0, template, 0, bytes.length);
            for (int at : new int[] {SEQ_AT + 12, TIME_AT + 16, HEADER_BYTES - 1}) {
                template[at] = ' ';
            }
        }

        byte[] value(long seq, long sentUs, byte[] key) {
            byte[] value = template.clone();
            Digits.put(value, SEQ_AT, 12, seq);
            Digits.put(value, TIME_AT, 16, sentUs);
            CRC32 crc = new CRC32();
            if (key != null) {
                crc.update(key);
            }
            crc.update(value, 0, CRC_AT);
            crc.update(value, HEADER_BYTES, value.length - HEADER_BYTES);
            long sum = crc.getValue();
            for (int i = 0; i < 8; i++) {
                value[CRC_AT + i] = (byte) "0123456789abcdef".charAt((int) (sum >> (28 - 4 * i)) & 15);
            }
            return value;
        }
    }
}
