/** `tutti doctor`: finds what keeps Tutti from working well here, and gives advice. */
import { type ClusterOptions, findCluster, livingClusters, runRoot } from "../cluster/find-cluster.ts";
import { usageError } from "../failure.ts";
import { print } from "../print.ts";
import { waitOption } from "../seconds-option.ts";
import { lookAtCluster } from "./cluster-checks.ts";
import { readContext } from "./context.ts";
import { type Finding, exitCodeOf, renderFindings } from "./finding.ts";
import { judgeMachine, judgeTimers } from "./machine.ts";
import { measureTimers, readMachine } from "./machine-probe.ts";
import { lookAtServer } from "./nats-server.ts";
import { judgeParts, readParts } from "./parts.ts";
import { descendants, lookAtPorts } from "./ports.ts";
import { tryProviders } from "./providers.ts";

export interface DoctorOptions extends ClusterOptions {
  readonly context?: string;
  readonly wait: string;
  readonly json?: boolean;
}

export async function doctor(options: DoctorOptions): Promise<void> {
  const waitMs = waitOption(options.wait);
  if (options.context !== undefined && options.nats !== undefined)
    throw usageError("--context names servers, and so does --nats: give one of them");
  const named = options.context === undefined ? options : { ...options, ...(await readContext(options.context)) };
  const findings = await examine(named, waitMs);
  if (options.json === true) print(JSON.stringify({ findings: findings.map(toJson) }));
  else process.stdout.write(`${renderFindings(findings, process.stdout)}\n`);
  process.exitCode = exitCodeOf(findings);
}

async function examine(options: ClusterOptions, waitMs: number): Promise<Finding[]> {
  // Measure timers alone: all other checks take processor time.
  const { timers, loopP99Us } = await measureTimers();
  const ours = (await livingClusters(runRoot())).map(({ pid }) => pid);
  const machine = [...judgeMachine(readMachine(runRoot())), judgeTimers(timers, loopP99Us)];
  const server = await lookAtServer();
  const parts = judgeParts(await readParts());
  const ports = await lookAtPorts(descendants(ours));
  const cluster = await clusterFindings(options, waitMs);
  return [...machine, server, parts, ...ports, ...(await tryProviders()), ...cluster];
}

/** Examines a named cluster, or one that runs here; without either there is no complaint. */
async function clusterFindings(options: ClusterOptions, waitMs: number): Promise<Finding[]> {
  const isNamed = options.nats !== undefined || Boolean(process.env["TUTTI_NATS"]);
  if (!isNamed && (await livingClusters(runRoot())).length === 0)
    return [
      {
        check: "cluster",
        state: "note",
        found: "none runs on this machine, and none is named",
        next: "`tutti up` starts one; --nats or --context names one to look at",
      },
    ];
  return lookAtCluster(await findCluster(options), isNamed, waitMs);
}

const toJson = ({ check, state, found, why, next }: Finding) => ({ check, state, found, why, next });
