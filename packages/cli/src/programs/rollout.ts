/** `tutti rollout`, as `tutti --help` lists it. */
import type { Command } from "commander";

const HELP = `
Versions are loaded beside the first one with \`tutti load <file> --name mlp --version 2\`. Without options: what each version gets and makes of it.
Requests go by their id (Nats-Msg-Id): the same id meets the same version, and a growing share moves ids one way. A version that can't be served has
its share at the default. --over goes up step by step and comes back by itself (exit code 1) when the version does badly; the planner keeps it, so that
this command may end before. --shadow runs copies on idle accelerators, compares the answers and sends none. Answers that differ are told, and turn a
rollout back only with --max-mismatch.`;

export function addRollout(program: Command, toCluster: (command: Command) => Command): void {
  toCluster(program.command("rollout [model]"))
    .description("share a model's requests between its versions: canaries, shadows, step by step, and back at once")
    .option("--to <version>", "which version gets a share, with --percent")
    .option("--percent <n>", "of the requests that name no version: 0 to 100; with --shadow: of those, how many copies")
    .option("--over <duration>", "up to that share step by step, such as 60s, watched on the way")
    .option("--max-bad <percent>", "with --over: how many of its requests may be refused or late", "1%")
    .option(
      "--max-mismatch <percent>",
      "with --over: back too when more of the compared answers differ, if it is the shadow too (default: told only)",
    )
    .option("--detach", "with --over: don't wait for the end")
    .option("--default <version>", "the version that gets what no other has")
    .option("--shadow <version>", "run copies of requests on this version too, and compare")
    .option("--tolerance <n>", "with --shadow: difference that counts as equal (default: by data type, FP32 1e-4)")
    .option("--end-shadow", "stop that")
    .option("--back", "the shares before the last change, at once")
    .option("--clear", "share nothing any more: all to the version that has the model's own name")
    .option(
      "--wait <seconds>",
      "how long to listen for figures at most, 1.1 or longer; actors report once a second",
      "2.5",
    )
    .addHelpText("after", HELP)
    .action(async (model: string | undefined, options) =>
      (await import("../commands/rollout.ts")).rollout(model, options),
    );
}
