/** `tutti jobs`, as `tutti --help` lists it. */
import type { Command } from "commander";

const HELP = `
Jobs run in accelerator time that no request with an SLO needs (docs/jobs.md). waiting jobs are in the queue, on disk; those in flight are at the
ingresses. done/s is the mean of the last seconds. Dead letters are jobs that were given up, with their inputs: \`tutti jobs dead\`.`;

const SUBMIT_HELP = `
A folder stands for all files in it that \`tutti infer --input\` reads; a list is a text file with one such path a line. Each answer is written to
<out>/<file>.json; with --format npy its outputs are <out>/<file>.<output>.npy, for numpy.load. Run the same command again after Ctrl-C, or after --detach, for the results that are missing: what has a result is not run again.`;

export function addJobs(program: Command, toCluster: (command: Command) => Command): void {
  const jobs = toCluster(program.command("jobs"))
    .description("show the queue of background jobs: what waits, how fast it gets done, and when it is empty")
    .option("--wait <seconds>", "how long to listen for figures, 1.1 or longer; runners report once a second", "1.5")
    .addHelpText("after", HELP)
    .action(async (options) => (await import("../commands/jobs.ts")).jobs(options));
  toCluster(jobs.command("submit <folder-or-list>"))
    .description("put files into the queue as jobs, wait for their answers and write them to a folder")
    .requiredOption("--model <name>", "which model")
    .requiredOption("--out <folder>", "where the answers are written")
    .option("--deadline <duration>", "give jobs up that have no answer then: 30m, 2h (default: 7 days)")
    .option("--app <name>", "in the name of which application", "cli")
    .option("--outputs <names>", "only these outputs, separated by commas")
    .option("--format <form>", "json, or npy: each output an array of its own beside its result", "json")
    .option("--detach", "end as soon as all jobs are in the queue")
    .addHelpText("after", SUBMIT_HELP)
    .action(async (path: string, options) => (await import("../commands/submit-jobs.ts")).submitJobs(path, options));
  toCluster(jobs.command("dead"))
    .description("list the jobs that were given up, and why")
    .option("--model <name>", "only those of this model")
    .option("--app <name>", "only those of this application")
    .option("--id <id>", "only those of the job of this id")
    .option("--requeue", "put them into the queue again; their deadlines begin anew")
    .option("--remove", "remove them, with their inputs")
    .action(async (options) => (await import("../commands/jobs.ts")).dead(options));
}
