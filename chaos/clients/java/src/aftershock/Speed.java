package aftershock;

import java.util.Map;

/** The speed that the orders set, with its lifecycle rows. */
final class Speed {
    private final Channel channel;
    private final Lifecycle lifecycle;
    private double slowS;

    Speed(Channel channel, Lifecycle lifecycle) {
        this.channel = channel;
        this.lifecycle = lifecycle;
    }

    /** Records a change of the speed. */
    void apply() {
        double ordered = channel.perRecordS;
        if (ordered != slowS) {
            slowS = ordered;
            lifecycle.event(ordered > 0 ? "slowed" : "resumed", Map.of("per_record_s", ordered));
        }
    }
}
