/** What roles are started with where nothing else is said. */
import { micros, millis, seconds } from "@tutti/units";

/**
 * Lower bound of d_ctrl: two hops over loopback take 40 µs when nobody else runs, and a scheduler's slice when somebody
 * does.
 */
export const CTRL_FLOOR = micros(300);
/**
 * As the ranker takes it, which reckons a grant's validity of four times this: long enough for a process that waits for
 * its turn on a busy machine.
 */
export const GRANT_CTRL_FLOOR = millis(2.5);
/**
 * Of the SLO: what deferred batches start earlier than they could, so that a machine which is late once does not miss
 * the window.
 */
export const MARGIN_SHARE = 0.05;
/** Lower bound of d_data in microseconds per item; what pulls really cost is measured. */
export const PER_ITEM_FLOOR_US = 2;
/** 150 KB take 25 µs over TCP. */
export const PER_KILOBYTE_FLOOR_US = 0.2;
/** Lower bound of d_resp: outputs over a socket, and the answer over NATS. */
export const RESPOND_FLOOR = micros(300);
/**
 * How often the first spare pings a leader that grants. A ping costs 60 µs of CPU over its processes, on a virtual
 * machine 200: at 2 ms the spare alone took a tenth of a core, and 1,000 r/s on two cores lost 6 %. What 5 ms add is
 * less than a killed process takes to give up its socket.
 */
export const PING_EVERY = millis(5);
/** How often spares practise the lead, some 10 ms of CPU each time: V8 throws away what has not run for long. */
export const PRACTISE_EVERY = seconds(10);

export const PROFILING = {
  quantile: 0.99,
  runs: 100,
  budget: millis(200),
  gpusMax: 4,
  overhead: millis(1),
  window: seconds(30),
} as const;

/**
 * What an ingress sends itself when it starts, so that everything on the way is compiled before the first request of a
 * publisher.
 */
export const WARMUP_PER_SECOND = 1_000;
export const WARMUP_TIME = seconds(4);
export const WARMUP_TIME_MAX = seconds(60);

/** How often the planner balances loads; rates are of the last 5 s, and a model takes seconds to load. */
export const EPOCH = seconds(30);
export const EPOCH_LEAST = seconds(3);
/** Of all models' memory: what an epoch may load and unload only to balance loads. */
export const BUDGET_SHARE = 0.1;
