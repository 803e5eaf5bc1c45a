export { type JobRunnerConfig, type JobRunnerPorts, createJobRunner } from "./job-runner.ts";
