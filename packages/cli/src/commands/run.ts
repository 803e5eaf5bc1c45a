import { execPath } from "node:process";
import type { ProcessRole } from "@tutti/protocol";
import { type RunningAgent, ProcessLog, keeperOf, startAgent } from "@tutti/host/agent";
import { EXIT } from "@tutti/admin";
import { type RoleOptions, roleHelp, readRoleOptions, processArguments, processRoleOf } from "@tutti/host/role";
import { Supervisor } from "@tutti/host/supervisor";
import { StopSignal, fileVariables } from "@tutti/host";
import { flagWords, roleOptions, rolesOf } from "../config/command-options.ts";

/** A stopping actor exits after 9 s at the latest, whatever it still waits for. */
const STOP_MS = 12_000;

/**
 * `tutti run <roles> [flags]`: runs one role, several with commas between them, or `node`, in the foreground. The roles
 * share one process on this host, and the command ends when that process ends. Meanwhile operators may restart and
 * drain it from anywhere, which starts another process in its place.
 */
export async function run(list: string, argv: readonly string[]): Promise<void> {
  const roles = rolesOf(list);
  const role = processRoleOf(roles);
  if (argv.includes("--help") || argv.includes("-h")) {
    process.stdout.write(`tutti run ${list} [flags]\n\n${roleHelp(roles)}\n`);
    return;
  }
  const said = await roleOptions(roles, argv);
  const options = readRoleOptions(said);
  const logs = new ProcessLog();
  const { promise: over, resolve: end } = Promise.withResolvers<number>();
  const supervisor = new Supervisor(
    {
      onReady: () => undefined,
      onLine(name, line, stream) {
        logs.add(name, line);
        process[stream].write(`${line}\n`);
      },
      onExit: (_, how, next) => next === "given-up" && end(exitCodeOf(how)),
    },
    // The parent of this process (systemd, Kubernetes) decides whether a role that died is started again.
    { attemptsMax: 1, firstAttemptsMax: 1 },
  );
  supervisor.start({
    name: role,
    command: execPath,
    args: [...processArguments(roles), ...flagWords(said)],
    env: fileVariables(said),
  });
  const stop = new StopSignal(() => supervisor.kill());
  const agent = startRoleAgent(role, { supervisor, logs, options });
  stop.signal.addEventListener("abort", () => {
    void supervisor.stop({ graceMs: STOP_MS }).then((killed) => end(killed.length === 0 ? EXIT.ok : EXIT.failed));
  });
  process.exitCode = await over;
  stop.release();
  await agent?.stop();
}

function startRoleAgent(
  role: ProcessRole,
  {
    supervisor,
    logs,
    options,
  }: {
    readonly supervisor: Supervisor;
    readonly logs: ProcessLog;
    readonly options: RoleOptions;
  },
): RunningAgent | undefined {
  // With accounts, a role's own credentials don't let it receive operators' messages.
  if (options.creds !== undefined && options.agentCreds === undefined) return undefined;
  return startAgent({
    servers: options.nats,
    credentials: options.agentCreds,
    tlsCa: options.tlsCa,
    cluster: options.cluster,
    host: options.host,
    processManager: keeperOf({ supervisor, logs, roleOf: () => role }),
    onTrouble: (text) => process.stderr.write(`tutti run ${role}: ${text}\n`),
  });
}

const exitCodeOf = (how: string): number => Number(/^exit code (\d+)$/.exec(how)?.[1] ?? EXIT.failed);
