import { execPath } from "node:process";
import { type ProcessRole, type Role, ROLES, isRole, NODE_ROLES } from "@tutti/protocol";
import { type RunningAgent, ProcessLog, keeperOf, startAgent } from "@tutti/host/agent";
import { EXIT, usageError, didYouMean } from "@tutti/admin";
import { roleHelp, parseRoleOptions, processArguments, processRoleOf } from "@tutti/host/role";
import { Supervisor } from "@tutti/host/supervisor";
import { StopSignal } from "@tutti/host";

/** A stopping actor exits after 9 s at the latest, whatever it still waits for. */
const STOP_MS = 12_000;
const AGENT_CREDS = "--agent-creds";

/**
 * `tutti run <roles> [flags]`: runs one role, several with commas between them, or `node`, in the foreground. The roles
 * share one process on this host, and the command ends when that process ends. Meanwhile operators may restart and
 * drain it from anywhere, which starts another process in its place.
 */
export async function run(list: string, argv: readonly string[]): Promise<void> {
  const roles = list === "node" ? NODE_ROLES : list.split(",").map(checkRole);
  const role = processRoleOf(roles);
  if (argv.includes("--help") || argv.includes("-h")) {
    process.stdout.write(`tutti run ${list} [flags]\n\n${roleHelp(roles)}\n${AGENT_HELP}\n`);
    return;
  }
  const { flags, agentCreds } = splitFlags(argv);
  const options = parseRoleOptions(roles, flags);
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
  supervisor.start({ name: role, command: execPath, args: [...processArguments(roles), ...flags] });
  const stop = new StopSignal(() => supervisor.kill());
  const agent = startRoleAgent(role, { supervisor, logs, options, agentCreds });
  stop.signal.addEventListener("abort", () => {
    void supervisor.stop({ graceMs: STOP_MS }).then((killed) => end(killed.length === 0 ? EXIT.ok : EXIT.failed));
  });
  process.exitCode = await over;
  stop.release();
  await agent?.stop();
}

/** @throws {CommandError} there is no such role */
function checkRole(role: string): Role {
  if (isRole(role)) return role;
  const known = [...ROLES, "node"];
  throw usageError(`there is no role "${role}"${didYouMean(role, known)}; roles are ${known.join(", ")}`);
}

const AGENT_HELP = `  ${AGENT_CREDS} <file>  credentials of the user agent, through which operators restart and drain this process (default: TUTTI_AGENT_CREDS)`;

function startRoleAgent(
  role: ProcessRole,
  {
    supervisor,
    logs,
    options,
    agentCreds,
  }: {
    readonly supervisor: Supervisor;
    readonly logs: ProcessLog;
    readonly options: ReturnType<typeof parseRoleOptions>;
    readonly agentCreds: string | undefined;
  },
): RunningAgent | undefined {
  // With accounts, a role's own credentials don't let it receive operators' messages.
  if (options.creds !== undefined && agentCreds === undefined) return undefined;
  return startAgent({
    servers: options.nats,
    credentials: agentCreds,
    tlsCa: options.tlsCa,
    cluster: options.cluster,
    host: options.host,
    processManager: keeperOf({ supervisor, logs, roleOf: () => role }),
    onTrouble: (text) => process.stderr.write(`tutti run ${role}: ${text}\n`),
  });
}

/** Separates the agent's flag from the role's flags. */
function splitFlags(argv: readonly string[]): { flags: string[]; agentCreds: string | undefined } {
  const at = argv.findIndex((flag) => flag === AGENT_CREDS || flag.startsWith(`${AGENT_CREDS}=`));
  if (at < 0) return { flags: [...argv], agentCreds: process.env["TUTTI_AGENT_CREDS"] };
  const [, inline] = (argv[at] ?? "").split("=", 2);
  const agentCreds = inline ?? argv[at + 1];
  if (agentCreds === undefined) throw usageError(`${AGENT_CREDS} needs a file`);
  return { flags: argv.filter((_, i) => i !== at && (inline !== undefined || i !== at + 1)), agentCreds };
}

const exitCodeOf = (how: string): number => Number(/^exit code (\d+)$/.exec(how)?.[1] ?? EXIT.failed);
