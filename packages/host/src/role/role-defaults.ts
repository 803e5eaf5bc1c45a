/** Default settings of roles. */
import { micros, millis, seconds } from "@tutti/units";

/** Several times a second, as T5 and docs/architecture.md, 4 require. */
export const HEARTBEAT_EVERY = millis(100);
/** An idle actor needs no faster failure detection, since nothing depends on it. */
export const IDLE_HEARTBEAT_EVERY = seconds(1);
/**
 * Time limit of peers' silence, which detects only hanging peers; probes detect killed ones. No process waits so long
 * for its turn on a busy machine.
 */
export const PEER_TIMEOUT = millis(1_000);
/**
 * Lower bound of d_ctrl. Two hops over loopback take 40 µs on an idle machine, and a scheduler's slice on a busy one.
 */
export const CTRL_FLOOR = micros(300);
/**
 * Lower bound of d_ctrl at the ranker, which makes a grant valid for four times this. That is long enough for a process
 * that waits for its turn on a busy machine.
 */
export const GRANT_CTRL_FLOOR = millis(2.5);
/**
 * Safety margin of deferred batches, as a share of the SLO. They start so much earlier than necessary, so that one
 * delay of the machine does not miss the window.
 */
export const MARGIN_SHARE = 0.05;
/** Lower bound of d_data in microseconds per item; the real cost of pulls is measured. */
export const PER_ITEM_FLOOR_US = 2;
/** Lower bound of d_data in microseconds per kilobyte: 150 KB take 25 µs over TCP. */
export const PER_KILOBYTE_FLOOR_US = 0.2;
/** Lower bound of d_resp: outputs over a socket, and the answer over NATS. */
export const RESPOND_FLOOR = micros(300);
/**
 * Period of the first spare's pings to a leader that grants. A ping costs 60 µs of CPU over its processes, on a virtual
 * machine 200 µs: at 2 ms the spare alone took a tenth of a core, and 1,000 r/s on two cores lost 6 %. The 5 ms add
 * less delay than a killed process needs to release its socket.
 */
export const PING_EVERY = millis(5);
/** Period of spares' practice runs of the lead, some 10 ms of CPU each. V8 discards code that has not run for long. */
export const WARM_UP_EVERY = seconds(10);

export const PROFILING = {
  runs: 100,
  budget: millis(200),
  gpusMax: 4,
  overhead: millis(1),
  window: seconds(30),
} as const;

/**
 * Rate of an ingress's warm-up requests at its start. They get all code on the path compiled before the first request
 * of a publisher.
 */
export const WARMUP_PER_SECOND = 1_000;
export const WARMUP_TIME = seconds(4);
export const WARMUP_TIME_MAX = seconds(60);

/** Period of the planner's load balancing. Rates cover the last 5 s, and a model takes seconds to load. */
export const EPOCH = seconds(30);
export const EPOCH_LEAST = seconds(3);
/** Share of all models' memory that an epoch may load and unload only to balance loads. */
export const BUDGET_SHARE = 0.1;
