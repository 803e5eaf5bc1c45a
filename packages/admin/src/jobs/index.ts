export { durationText } from "./job-table.ts";
export { dead, jobs } from "./jobs-commands.ts";
