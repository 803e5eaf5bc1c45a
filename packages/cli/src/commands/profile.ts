import { ModelRegistry, absentModelError, askedSpec } from "@tutti/client/registries";
import { CommandError, print, usageError } from "@tutti/admin";
import { type ClusterOptions, withCluster } from "@tutti/admin/cluster";
import type { InterferenceFlags } from "../interference/command.ts";
import { profileTables, renderProfiles, renderRunTimes } from "@tutti/admin/model-tables";
import { typedCommand, writeOutput } from "../present/output-file.ts";

export interface ProfileOptions extends ClusterOptions {
  readonly json?: boolean;
  readonly html?: string;
}

const INTERFERENCE_FLAGS = [
  ...["out", "models", "provider", "sizes", "pairs", "runMs", "cache", "bandwidth", "emulate", "set", "noise", "seed"],
];

export async function profileOrInterference(
  name: string | undefined,
  options: ProfileOptions & InterferenceFlags & { readonly interference?: boolean },
): Promise<void> {
  if (options.interference === true) {
    if (name !== undefined || options.html !== undefined)
      throw usageError(
        "--interference measures models by files or emulated ones: without a model's name, and without --html",
      );
    return (await import("../interference/command.ts")).profileInterference(options);
  }
  const stray = INTERFERENCE_FLAGS.find((flag) => flag in options);
  if (stray !== undefined) throw usageError(`--${stray === "runMs" ? "run-ms" : stray} goes with --interference`);
  if (name === undefined) throw usageError("which model? `tutti models` lists what is loaded");
  return profile(name, options);
}

/** `tutti profile <model>`: latencies of batches, given and learned, and of requests that ran alone, by application. */
export function profile(name: string, options: ProfileOptions): Promise<void> {
  return withCluster({ ...options, name: "tutti-profile" }, async (nats) => {
    const registry = new ModelRegistry(nats.store);
    const spec = await askedSpec(registry, name);
    if (spec === undefined) throw await absentModelError(registry, name);
    if (spec.variant !== undefined) {
      const { family } = spec.variant;
      throw new CommandError(`${name} is served by the family ${family}: \`tutti profile ${family}\` shows its times`);
    }
    const [status, times] = await Promise.all([registry.status(spec), registry.runTimes(spec)]);
    const tables = profileTables(spec, status, times);
    if (tables.length === 0) {
      const why = status?.reason ?? "it is being loaded or measured (`tutti models` shows its state)";
      throw new CommandError(`"${name}" has no profile: ${why}`);
    }
    const { buckets = [], learned } = times ?? {};
    if (options.html !== undefined) {
      const { runTimesPage } = await import("./run-times-page.ts");
      writeOutput(options.html, runTimesPage({ spec, tables, times, source: typedCommand() }));
    }
    const { number, version } = spec;
    const text =
      options.json === true
        ? JSON.stringify({
            ...{ name: spec.name, number, version, profiles: tables },
            ...(learned !== undefined && { runsUntil: learned.at }),
            buckets,
          })
        : [renderProfiles(tables, times), buckets.length > 0 ? renderRunTimes(spec, times!) : UNKNOWN_ALONE].join(
            "\n\n",
          );
    print(text);
  });
}

const UNKNOWN_ALONE =
  "How long its requests take alone is still unknown: samples come from requests that it answers, the first some ten seconds later.";
