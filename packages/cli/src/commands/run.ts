import { spawn } from "node:child_process";
import { isRole, ROLES } from "@tutti/protocol";
import { usageError } from "../failure.ts";
import { roleHelp } from "../role/role-options.ts";
import { serviceArguments } from "../role/service-main.ts";

/** `tutti run <role> [flags]`: one role in the foreground, on this host, in a process of its own; it ends as the role does. */
export async function run(role: string, argv: readonly string[]): Promise<void> {
  if (!isRole(role)) throw usageError(`there is no role "${role}"; roles are ${ROLES.join(", ")}`);
  if (argv.includes("--help") || argv.includes("-h")) {
    process.stdout.write(`tutti run ${role} [flags]\n\n${roleHelp(role)}\n`);
    return;
  }
  const child = spawn(process.execPath, [...serviceArguments(role), ...argv], { stdio: "inherit" });
  const pass = (signal: NodeJS.Signals): void => void child.kill(signal);
  process.on("SIGTERM", pass);
  process.on("SIGINT", () => undefined); // the terminal sends it to the child as well
  await new Promise<void>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code, signal) => {
      process.exitCode = signal === null ? (code ?? 1) : 1;
      resolve();
    });
  });
}
