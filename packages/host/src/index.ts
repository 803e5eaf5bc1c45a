/** Flags, their values and the signal to stop: light, since most commands load this and start no role. */
export { withCurrentNames } from "./renamed-flags.ts";
export { FILE_OPTION, FLAGS, flagsOf } from "./role/role-flags.ts";
export * from "./options/option-spec.ts";
export * from "./options/options-in-force.ts";
export { UP_OPTIONS, fieldOf, upOptionsInForce } from "./up/up-flags.ts";
export * from "./role/option-values.ts";
export { StopSignal } from "./up/stop-signal.ts";
