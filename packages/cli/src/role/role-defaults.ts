/** What roles are started with where nothing else is said. */
import { micros, millis, seconds } from "@tutti/units";

/** Lower bound of d_ctrl: two hops over loopback take 40 µs when nobody else runs, and a scheduler's slice when somebody does. */
export const CTRL_FLOOR = micros(300);
/** Lower bound of d_data in microseconds per item; what pulls really cost is measured. */
export const PER_ITEM_FLOOR_US = 5;
/** Lower bound of d_resp: outputs over a socket, and the answer over NATS. */
export const RESPOND_FLOOR = micros(300);
/** Spares notice a dead leader within about two of these. Each ping costs some 60 µs of CPU over its three processes. */
export const PING_EVERY = millis(5);

export const PROFILING = {
  quantile: 0.99,
  runs: 30,
  budget: millis(250),
  gpusMax: 4,
  overhead: millis(1),
  window: seconds(30),
} as const;
