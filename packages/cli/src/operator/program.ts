/** The operators' commands, as `tutti --help` lists them. */
import { Command } from "commander";

const EXAMPLES = {
  restart: `
One after the other: the replacement starts first and the old process leaves once it is ready, but for executors, profiler, planner and gateway, of which there
can be only one at a time. The next one's turn comes when as many actors, accelerators and ModelThreads are there as before. It stops at the first failure.

  tutti restart all               everybody, a ranker that leads after its spares
  tutti restart executor          every executor
  tutti restart ranker-1          one process; host-b/executor-0 where several hosts have one of that name
  tutti restart 1k2j9             one actor, by the beginning of its id`,
  drain: `
It is granted nothing more, finishes what it has accepted, ends, and stays down until \`tutti undrain\` or \`tutti restart\`.`,
} as const;

export function addOperators(program: Command, toCluster: (command: Command) => Command): void {
  toCluster(program.command("restart <actor|role|all>"))
    .description("replace processes one after the other, without refusing requests where capacity allows it")
    .option("--timeout <seconds>", "for each: until it is ready, and again until the cluster is whole", "60")
    .addHelpText("after", EXAMPLES.restart)
    .action(async (name: string, options) => (await import("./operation.ts")).operate("restart", name, options));
  toCluster(program.command("drain <executor>"))
    .description("take an executor out of service: it finishes what it has, ends, and stays down")
    .option("--timeout <seconds>", "until it has ended", "60")
    .addHelpText("after", EXAMPLES.drain)
    .action(async (name: string, options) => (await import("./operation.ts")).operate("drain", name, options));
  toCluster(program.command("undrain <executor>"))
    .description("start a drained executor again")
    .option("--timeout <seconds>", "until it is ready, and again until it serves", "60")
    .action(async (name: string, options) => (await import("./operation.ts")).operate("undrain", name, options));
}
