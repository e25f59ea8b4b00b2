// SPDX-License-Identifier: Apache-2.0

// java Recordings.java FILE... - how fast the JDK's own reader (jdk.jfr.consumer) reads recordings,
// every event with its stack. A line per file: path, inflated bytes, bytes per second of CPU time of
// this process, once the code is compiled. A file that it refuses has 0.
import java.io.InputStream;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.zip.GZIPInputStream;
import jdk.jfr.consumer.RecordedStackTrace;
import jdk.jfr.consumer.RecordingFile;

public class Recordings {
    static final long SPAN = 1_000_000_000L;

    static long cpu() {
        var os = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        return os.getProcessCpuTime();
    }

    static long frames(Path path) throws Exception {
        long n = 0;
        try (RecordingFile f = new RecordingFile(path)) {
            while (f.hasMoreEvents()) {
                RecordedStackTrace stack = f.readEvent().getStackTrace();
                if (stack != null) n += stack.getFrames().size();
            }
        }
        return n;
    }

    static double speed(Path path) throws Exception {
        long began = cpu(), runs = 0;
        do {
            frames(path);
            runs++;
        } while (cpu() - began < SPAN);
        return (double) runs * Files.size(path) / (cpu() - began) * 1e9;
    }

    public static void main(String[] args) throws Exception {
        Path plain = Files.createTempFile("recording", ".jfr");
        for (String arg : args) {
            try (InputStream in = Files.newInputStream(Path.of(arg))) {
                InputStream source = arg.endsWith(".gz") ? new GZIPInputStream(in) : in;
                Files.copy(source, plain, StandardCopyOption.REPLACE_EXISTING);
            }
            double best = 0;
            try {
                for (int i = 0; i < 3; i++) best = Math.max(best, speed(plain));
            } catch (Exception e) {
                best = 0;
            }
            System.out.printf("%s\t%d\t%.0f%n", arg, Files.size(plain), best);
        }
        Files.delete(plain);
    }
}
