/**
 * `npm run image -- [--tag tutti] [--base <image>] [--cuda] [--context <folder>]` builds the images `tutti` and
 * `tutti-nats`; with --cuda also `tutti-cuda`. Where there is no `docker`, it leaves the context, which any builder
 * takes.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { writeCudaContext } from "./cuda-context.ts";
import { writeImageContext } from "./image-context.ts";

const { values } = parseArgs({
  options: {
    tag: { type: "string", default: "tutti" },
    base: { type: "string" },
    cuda: { type: "boolean", default: false },
    context: { type: "string", default: join(import.meta.dirname, "../../.tutti/image") },
  },
});

const writeNatsContext = (folder: string): void =>
  void execFileSync(process.execPath, [join(import.meta.dirname, "../nats/image-context.ts"), folder]);

/** Sums up the files below a folder. */
const bytesOf = (folder: string): number =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);

await make(values.tag, {
  write: (folder) => writeImageContext({ folder, hasBase: values.base !== undefined }),
  base: values.base,
});
await make(`${values.tag}-nats`, { write: writeNatsContext });
if (values.cuda) await make(`${values.tag}-cuda`, { write: writeCudaContext, base: values.tag });

async function make(
  tag: string,
  { write, base }: { readonly write: (folder: string) => void | Promise<void>; readonly base?: string | undefined },
): Promise<void> {
  const folder = join(values.context, tag.replaceAll(/[^\w.-]/g, "-"));
  rmSync(folder, { recursive: true, force: true });
  await write(folder);
  const args = [
    "build",
    "--quiet",
    "--tag",
    tag,
    ...(base === undefined ? [] : ["--build-arg", `BASE=${base}`]),
    folder,
  ];
  console.log(`${tag}: ${(bytesOf(folder) / 1e6).toFixed(0)} MB\n  docker ${args.join(" ")}`);
  const { status, error } = spawnSync("docker", args, { stdio: "inherit" });
  if (error !== undefined) console.log(`  not built: ${error.message}`);
  else if (status !== 0) process.exitCode = 1;
}
