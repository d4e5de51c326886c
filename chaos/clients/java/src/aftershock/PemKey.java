package aftershock;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.AlgorithmParameters;
import java.security.GeneralSecurityException;
import java.util.Base64;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.crypto.Cipher;
import javax.crypto.EncryptedPrivateKeyInfo;
import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.PBEKeySpec;
import javax.crypto.spec.PBEParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/**
 * An encrypted private key in a PEM file, decrypted in memory. With PBES2, the password may have any characters.
 *
 * <p>Kafka's own decryption asks Java for an algorithm "PBES2" and fails, because Java 17 has only the names of its
 * parts; OpenSSL encrypts with PBES2 by default.
 */
final class PemKey {
    private static final String BEGIN = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
    private static final String END = "-----END ENCRYPTED PRIVATE KEY-----";
    private static final Pattern PBES2 = Pattern.compile("PBEWithHmac(SHA\\d+)AndAES_(\\d+)");

    private PemKey() {}

    /** Returns a key as unencrypted PEM. Throws IllegalArgumentException if the file or the password is wrong. */
    static String decrypted(String pem, String password, String path) throws IOException {
        int begin = pem.indexOf(BEGIN);
        int end = pem.indexOf(END);
        if (begin < 0 || end < begin) {
            throw new IllegalArgumentException(path + " has no encrypted key (PKCS #8); leave key_password out");
        }
        byte[] der = Base64.getMimeDecoder().decode(pem.substring(begin + BEGIN.length(), end).strip());
        try {
            EncryptedPrivateKeyInfo info = new EncryptedPrivateKeyInfo(der);
            AlgorithmParameters parameters = info.getAlgParameters();
            String name = info.getAlgName();
            if (name.equals("PBES2") || name.equals("1.2.840.113549.1.5.13")) {
                name = parameters.toString(); // such as PBEWithHmacSHA256AndAES_256
            }
            Matcher pbes2 = PBES2.matcher(name);
            byte[] key = pbes2.matches()
                    ? decrypted(info, parameters.getParameterSpec(PBEParameterSpec.class), pbes2, password)
                    : decrypted(info, name, password);
            String text = Base64.getMimeEncoder(64, "\n".getBytes(StandardCharsets.US_ASCII)).encodeToString(key);
            return "-----BEGIN PRIVATE KEY-----\n" + text + "\n-----END PRIVATE KEY-----\n";
        } catch (GeneralSecurityException e) {
            throw new IllegalArgumentException(
                    path + " cannot be decrypted with key_password: " + e.getMessage(), e);
        }
    }
    /** Decrypts by hand with a password of any characters: Java's ciphers of these names take ASCII only. */
    private static byte[] decrypted(
            EncryptedPrivateKeyInfo info, PBEParameterSpec how, Matcher pbes2, String password)
            throws GeneralSecurityException {
        PBEKeySpec secret = new PBEKeySpec(
                password.toCharArray(), how.getSalt(), how.getIterationCount(), Integer.parseInt(pbes2.group(2)));
        byte[] derived = SecretKeyFactory.getInstance("PBKDF2WithHmac" + pbes2.group(1)) // of the UTF-8 of a password
                .generateSecret(secret)
                .getEncoded();
        Cipher cipher = Cipher.getInstance("AES/CBC/PKCS5Padding");
        cipher.init(Cipher.DECRYPT_MODE, new SecretKeySpec(derived, "AES"), how.getParameterSpec());
        return cipher.doFinal(info.getEncryptedData());
    }

    private static byte[] decrypted(EncryptedPrivateKeyInfo info, String name, String password)
            throws GeneralSecurityException {
        Cipher cipher = Cipher.getInstance(name);
        PBEKeySpec secret = new PBEKeySpec(password.toCharArray());
        cipher.init(
                Cipher.DECRYPT_MODE,
                SecretKeyFactory.getInstance(name).generateSecret(secret),
                info.getAlgParameters());
        return info.getKeySpec(cipher).getEncoded();
    }
}
