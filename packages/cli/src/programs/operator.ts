/** The operators' commands, as `tutti --help` lists them. */
import { usageError } from "@tutti/admin";
import type { Command } from "commander";

const HELP = {
  restart: `
One after the other: the replacement starts first and the old process leaves once it is ready, but for executors, profiler, planner and gateway, of which there
can be only one at a time. The next one's turn comes when as many actors, accelerators and ModelThreads are there as before. It stops at the first failure.
Of a role or of all, drained executors stay drained; one that is named is started.

  tutti restart all               everybody, a ranker that leads after its spares
  tutti restart executor          every executor
  tutti restart ranker            every process that hosts a ranker: the nodes, or with --layout spread rankers alone
  tutti restart executor-1        one process, by its name in \`tutti actors\`; host-b/executor-0 where several hosts have it
  tutti restart 1k2j9             one actor, by the beginning of its id`,
  drain: `
It is granted nothing more, finishes what it has accepted, ends, and stays down until \`tutti undrain\` or \`tutti restart\`, whatever --autoscale is
advised. One that --autoscale has drained and \`tutti undrain\` brings back stays up until \`tutti drain\`.`,
  split: `
Processes of the new parts start and load while the old ones serve; then those finish what they have and end, and the new ones serve. On a CPU parts are cores
(\`tutti up --cores 4\`), on NVIDIA shares of the multiprocessors under CUDA MPS, and emulated ones take as much longer.

  tutti split executor-0 60       two parts, of 60 and of 40 percent; again with another size they are resized
  tutti split executor-0 100      whole again`,
  refusals: `
waited is from arrival to refusal or answer; needed is what its SLO would have had to be at least, even with an accelerator free by then;
queue is how many requests waited, and waited for is what this one waited for: an accelerator, a batch to fill, nothing (it was too late when it came), room in
a full queue, or its application's share.
Every ingress keeps the last 16,384; of a flood of one model, application and cause it keeps some each second. Inputs are never kept, nor are jobs and requests that were cancelled.

  tutti refusals --request <id>   one of the ids in the list, or the publisher's Nats-Msg-Id, body id or trace id: why, in sentences`,
  status: `
offered, good (answered in time) and refused are requests per second of the last seconds; batch is the mean batch; p99 is from arrival to answer.`,
  top: `
CPU, memory, turns, msg/s and MB/s are a process's, and stand once, with the first of its actors: the rows below it with the same pid belong to it.
CPU is in cores (100 % is one). A turn of the event loop in the last second: what comes meanwhile waits for its end. msg/s counts NATS messages, both ways.`,
  actors: `
health is ok, or what is not: late heartbeat, not serving, draining, drained, event loop late, clock skewed, malformed messages, slow consumer, stood still, quarantined.`,
} as const;

export function addOperators(program: Command, toCluster: (command: Command) => Command): void {
  toCluster(program.command("restart <actor|role|all>"))
    .description("replace processes one after the other, without refusing requests where capacity allows it")
    .option("--timeout <seconds>", "for each: until it is ready, and again until the cluster is whole", "60")
    .addHelpText("after", HELP.restart)
    .action(async (name: string, options) =>
      (await import("../commands/operator.ts")).operate("restart", name, options),
    );
  toCluster(program.command("drain <executor>"))
    .description("take an executor out of service: it finishes what it has, ends, and stays down")
    .option("--timeout <seconds>", "until it has ended", "60")
    .addHelpText("after", HELP.drain)
    .action(async (name: string, options) => (await import("../commands/operator.ts")).operate("drain", name, options));
  toCluster(program.command("undrain <executor>"))
    .description("start a drained executor again")
    .option("--timeout <seconds>", "until it is ready, and again until it serves", "60")
    .action(async (name: string, options) =>
      (await import("../commands/operator.ts")).operate("undrain", name, options),
    );
  toCluster(program.command("split <executor> <percent>"))
    .description(
      "split an executor's accelerator into two parts, resize them, or make it whole again (100), while it serves",
    )
    .option("--timeout <seconds>", "until the new processes are ready, and again until the old ones have ended", "60")
    .addHelpText("after", HELP.split)
    .action(async (name: string, percent: string, options) =>
      (await import("../commands/operator.ts")).operate("split", name, {
        ...options,
        size: sizeOf(percent),
      }),
    );
  toCluster(program.command("logs <actor|role|all>"))
    .description("show what processes wrote lately")
    .option("--follow", "go on with what they write, until Ctrl-C")
    .option("--since <duration>", "how far back: 30s, 5m, 1h; an agent keeps the last 2,000 lines of each", "5m")
    .action(async (name: string, options) => (await import("../commands/operator.ts")).logs(name, options));
  toCluster(program.command("refusals [model]"))
    .description("list the latest requests that were refused or answered late, or explain one of them")
    .option("--request <id>", "only this one, with the reasons in sentences")
    .option("--app <name>", "only this application's")
    .option("--cause <cause>", "only these: overloaded, deadline_infeasible, ..., or late")
    .option("--since <duration>", "how far back: 30s, 5m, 1h (default: as far as they are kept)")
    .option("--limit <n>", "how many at most, up to 100", "20")
    .option("--wait <seconds>", "how long to wait for ingresses at most, 1.1 or longer", "2.5")
    .addHelpText("after", HELP.refusals)
    .action(async (model: string | undefined, options) =>
      (await import("../commands/operator.ts")).refusals(model, options),
    );
  toWatch(program.command("status"), toCluster)
    .description("show what becomes of each model's requests, how busy accelerators are, and who leads")
    .addHelpText("after", HELP.status)
    .action(async (options) => (await import("../commands/operator.ts")).status(options));
  toWatch(program.command("top"), toCluster)
    .description("show actors by processor time, and accelerators by how busy they are")
    .addHelpText("after", HELP.top)
    .action(async (options) => (await import("../commands/operator.ts")).top(options));
  toCluster(program.command("actors"))
    .description("list the actors that are there, and how they fare")
    .option("--wait <seconds>", WAIT, "2.5")
    .addHelpText("after", HELP.actors)
    .action(async (options) => (await import("../commands/operator.ts")).actors(options));
}

function sizeOf(text: string): number {
  const percent = Number(text);
  if (Number.isInteger(percent) && percent >= 1 && percent <= 100) return percent;
  throw usageError(`${text}: a whole number of percent, from 1 to 100`);
}

const WAIT = "how long to listen at most, 1.1 or longer; actors report once a second, and rates take two reports";

const toWatch = (command: Command, toCluster: (command: Command) => Command): Command =>
  toCluster(command)
    .option("--once", "print once, also on a terminal, where it is otherwise renewed in place until Ctrl-C")
    .option("--wait <seconds>", WAIT, "2.5");
