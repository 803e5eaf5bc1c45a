import { EXIT } from "@tutti/admin";
import { type Parts, mismatchesOf, readParts } from "@tutti/admin/doctor";

const NAMES: Readonly<Record<keyof Parts, string>> = {
  ...{ tutti: "tutti", node: "Node", natsServer: "nats-server", onnxruntime: "onnxruntime", client: "@tutti/client" },
};

/** `tutti version`: the versions of everything that runs; exit code 1 where they don't fit together. */
export async function version(options: { readonly json?: boolean }): Promise<void> {
  const parts = await readParts();
  const mismatches = mismatchesOf(parts);
  if (options.json === true) process.stdout.write(`${JSON.stringify({ ...parts, mismatches })}\n`);
  else {
    const rows = Object.entries(NAMES).map(([key, name]) => [name, parts[key as keyof Parts]] as const);
    const shown = rows.filter(([name, found]) => found !== undefined || name !== NAMES.client);
    for (const [name, found] of shown) process.stdout.write(`${name.padEnd(13)}  ${found ?? "none"}\n`);
    for (const line of mismatches) process.stderr.write(`tutti version: ${line}\n`);
  }
  if (mismatches.length > 0) process.exitCode = EXIT.failed;
}
