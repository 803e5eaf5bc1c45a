/** Flags, their values and the signal to stop: light, since most commands load this and start no role. */
export { withCurrentNames } from "./renamed-flags.ts";
export { FLAGS } from "./role/role-flags.ts";
export * from "./role/option-values.ts";
export { StopSignal } from "./up/stop-signal.ts";
