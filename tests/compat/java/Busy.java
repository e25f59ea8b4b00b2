// A busy program under io.pyroscope:agent and io.pyroscope:otel: burns CPU time, allocates and waits for a lock in functions whose names
// the test then asks for, and burns some in spans, whose ids it prints.
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.otel.pyroscope.OtelProfilerSdkBridge;
import io.otel.pyroscope.PyroscopeOtelConfiguration;
import io.otel.pyroscope.PyroscopeOtelSpanProcessor;
import io.pyroscope.http.Format;
import io.pyroscope.javaagent.EventType;
import io.pyroscope.javaagent.ProfilerSdk;
import io.pyroscope.javaagent.PyroscopeAgent;
import io.pyroscope.javaagent.config.Config;
import io.pyroscope.labels.v2.LabelsSet;
import io.pyroscope.labels.v2.Pyroscope;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

public class Busy {
    static volatile long sink;
    static volatile Object kept;
    static final Object LOCK = new Object();
    static volatile boolean held;

    static long usedMillis() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() / 1_000_000;
    }

    static void burnHotLoop(long milliseconds) {
        long until = usedMillis() + milliseconds;
        while (usedMillis() < until) {
            for (int i = 0; i < 1_000_000; i++) sink ^= i;
        }
    }

    static void burnTagged(long milliseconds) {
        Pyroscope.LabelsWrapper.run(new LabelsSet("job", "tagged"), () -> burnHotLoop(milliseconds));
    }

    // Some 200 MB: the profiler takes a sample of every 512 KB.
    static void allocateMuch() {
        for (int i = 0; i < 2000; i++) kept = new byte[100_000];
    }

    static void holdLock(Thread waiter, long milliseconds) {
        synchronized (LOCK) {
            held = true;
            while (waiter.getState() != Thread.State.BLOCKED) Thread.onSpinWait();
            burnHotLoop(milliseconds);
        }
    }

    static void waitForLock() throws InterruptedException {
        Thread waiter = Thread.currentThread();
        Thread holder = new Thread(() -> holdLock(waiter, 300));
        held = false;
        holder.start();
        while (!held) Thread.sleep(1);
        synchronized (LOCK) {
            sink++;
        }
        holder.join();
    }

    static String burnInSpan(Tracer tracer, long milliseconds) {
        Span span = tracer.spanBuilder("checkout").startSpan();
        burnHotLoop(milliseconds);
        span.end();
        return span.getSpanContext().getSpanId();
    }

    static Tracer tracer() throws Exception {
        OtelProfilerSdkBridge bridge = new OtelProfilerSdkBridge(new ProfilerSdk(), Pyroscope.LabelsWrapper.class.getDeclaredMethod("registerConstant", String.class));
        PyroscopeOtelConfiguration all = new PyroscopeOtelConfiguration.Builder().setRootSpanOnly(true).setAddSpanName(true).build();
        return SdkTracerProvider.builder().addSpanProcessor(new PyroscopeOtelSpanProcessor(all, bridge)).build().get("busy");
    }

    public static void main(String[] args) throws Exception {
        Map<String, String> labels = new HashMap<>();
        labels.put("kit", "java");
        labels.put("team.name", "a b+c");
        PyroscopeAgent.start(new Config.Builder()
            .setApplicationName(args[1])
            .setServerAddress(args[0])
            .setFormat(Format.JFR)
            .setProfilingEvent(EventType.ITIMER)
            .setProfilingAlloc("512k")
            .setProfilingLock("10ms")
            .setUploadInterval(Duration.ofSeconds(2))
            .setLabels(labels)
            .build());
        Tracer tracer = tracer();
        List<String> spans = new ArrayList<>();
        for (int round = 0; round < 3; round++) {
            burnHotLoop(700);
            burnTagged(400);
            allocateMuch();
            waitForLock();
            spans.add(burnInSpan(tracer, 400));
        }
        Thread.sleep(3000); // the last recording is sent two seconds after it began
        PyroscopeAgent.stop();
        System.out.println("done " + String.join(" ", spans));
    }
}
