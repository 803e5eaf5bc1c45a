/** What suites need of the simulator's commands. */
export * from "./scenario-family.ts";
export * from "./scenario-file.ts";
