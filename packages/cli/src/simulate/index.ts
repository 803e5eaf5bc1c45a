/** Exports of the simulator's commands for test suites. */
export * from "./scenario-family.ts";
export * from "./scenario-file.ts";
