/** `tutti doctor`, as `tutti --help` lists it. */
import type { Command } from "commander";

const HELP = `
Looks at Node, nats-server, ports, processors, memory, limits, timers, disk and what can compute here; and, of a cluster that is named or runs here, whether it
can be reached, what these credentials may do, who is there and whether their clocks agree. Nothing is changed.

Exit codes: 0 it works (warnings included), 1 something must be mended, 3 the cluster that was named can't be reached.`;

export function addDoctor(program: Command, toCluster: (command: Command) => Command): void {
  toCluster(program.command("doctor"))
    .description("look for what keeps Tutti from working well here, and say what to do about it")
    .option("--context <name>", "servers and credentials as the nats command line has them under this name")
    .option("--wait <seconds>", "how long to listen to a cluster's actors at most, 1.1 or longer", "2.5")
    .addHelpText("after", HELP)
    .action(async (options) => (await import("../commands/doctor.ts")).doctor(options));
}
