export { type JobRunnerPorts, createJobRunner } from "./job-runner.ts";
