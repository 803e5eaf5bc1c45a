/** The gateway's ports that the user names, checked before anything starts. */
import { CommandError, usageError } from "@tutti/admin";
import { listenFailure } from "@tutti/admin/cluster";
import type { UpOptions } from "./up-options.ts";

const LOOPBACK = "127.0.0.1";
const WHY: ReadonlyMap<string | undefined, string> = new Map([
  ["EADDRINUSE", "is taken"],
  ["EACCES", "may not be opened by this user"],
]);

/**
 * The gateway refuses such a port too, but only when its process has started three times. Whatever else keeps it from
 * listening is left to it.
 *
 * @throws {CommandError} a port is taken, not allowed, or named twice: which flag's, and what to do
 */
export async function checkGatewayPorts({ gateway, gatewayAccess }: Pick<UpOptions, "gateway" | "gatewayAccess">) {
  const host = valueOf(gatewayAccess, "--http-host") ?? LOOPBACK;
  const flags = new Map<number, string>();
  for (const flag of ["--http-port", "--grpc-port", "--metrics-port"]) {
    const port = Number(valueOf(gateway, flag) ?? 0);
    if (port === 0) continue;
    const other = flags.get(port);
    if (other !== undefined) throw usageError(`${other} and ${flag} are both ${port}: name another for one of them`);
    flags.set(port, flag);
    const why = WHY.get(await listenFailure({ port, host: flag === "--metrics-port" ? LOOPBACK : host }));
    if (why !== undefined) throw new CommandError(`port ${port} ${why}: name another with ${flag} (0: any)`);
  }
}

function valueOf(argv: readonly string[], flag: string): string | undefined {
  const at = argv.indexOf(flag);
  return at < 0 ? undefined : argv[at + 1];
}
