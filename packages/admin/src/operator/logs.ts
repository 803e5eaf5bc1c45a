/** `tutti logs`: recent lines of processes, and with `--follow` new ones, from their agents. */
import type { LogLine, LogsTold } from "@tutti/protocol";
import { parseDuration, printable } from "@tutti/units";
import type { ClusterOptions } from "../cluster/find-cluster.ts";
import { withCluster } from "../cluster/connection.ts";
import { usageError } from "../failure.ts";
import { note, print } from "../print.ts";
import { OperatorLink } from "./operator-link.ts";
import { type Target, findTargets } from "./targets.ts";

export interface LogsOptions extends ClusterOptions {
  readonly json?: boolean;
  readonly follow?: boolean;
  /** A duration. */
  readonly since: string;
}

const AGENTS_MS = 1_000;
/** Fields that every line of an actor has, and that are already shown before the text. */
const COMMON = new Set(["level", "time", "msg", "service", "instance", "pid", "hostname", "role", "actor"]);

export function logs(name: string, options: LogsOptions): Promise<void> {
  const back = parseDuration(options.since);
  if (back === undefined) throw usageError(`--since ${options.since}: a duration, such as 30s, 5m or 1h`);
  return withCluster({ ...options, name: "tutti-operator" }, async ({ control }, { cluster }) => {
    const link = new OperatorLink(control, cluster);
    try {
      const targets = findTargets(name, await link.agents(AGENTS_MS), () => false);
      const { since, json = false, follow = false } = options;
      await tell(link, targets, { back: back / 1_000, since, json, follow });
    } finally {
      link.close();
    }
  });
}

interface Asked {
  /** Milliseconds. */
  readonly back: number;
  /** The same as it was typed. */
  readonly since: string;
  readonly json: boolean;
  readonly follow: boolean;
}

async function tell(
  link: OperatorLink,
  targets: readonly Target[],
  { back, since, json, follow }: Asked,
): Promise<void> {
  const several = targets.length > 1;
  const past: { line: LogLine; target: Target }[] = [];
  let isPast = true;
  const show = (line: LogLine, target: Target): void =>
    print(json ? asJson(line, target) : renderLine(line, several ? target : undefined));
  const onTold =
    (target: Target) =>
    ({ lines, left, process }: LogsTold) => {
      if (left > 0) processNote(`${process}: ${left} lines are missing here`);
      for (const line of lines)
        if (isPast) past.push({ line, target });
        else show(line, target);
    };
  const streams = targets.map((target) =>
    link.logs({ agent: target.agent, process: target.name, backMs: back, follow }, onTold(target)),
  );
  // Kept lines arrive at once; lines of several processes are sorted before they are shown.
  if (follow) await new Promise((resolve) => setTimeout(resolve, SORTED_MS));
  else await Promise.all(streams.map(({ ended }) => ended));
  for (const { line, target } of past.sort((a, b) => a.line.at - b.line.at)) show(line, target);
  isPast = false;
  if (past.length === 0 && !json) note(nothingText(targets, since));
  if (!follow) return;
  const onSignal = (): void => streams.forEach((stream) => stream.stop());
  process.on("SIGINT", onSignal).on("SIGTERM", onSignal);
  await Promise.all(streams.map(({ ended }) => ended));
}

/** A quiet log is normal, and must not look like a command that found nothing to read. */
function nothingText(targets: readonly Target[], since: string): string {
  const [first] = targets;
  const who = targets.length === 1 ? `${first!.name} wrote nothing` : `${targets.length} processes wrote nothing`;
  return `${who} in the last ${since}; a longer --since goes further back`;
}

const SORTED_MS = 500;
const processNote = (text: string): void => note(`tutti logs: ${text}`);

const asJson = ({ at, text }: LogLine, { host, name, role, actor }: Target): string =>
  JSON.stringify({ at, host, process: name, role, actor, line: text });

/**
 * Shows structured lines as `12:00:01.234 warn  text  field=value`, others as they are. Applications' words stand in
 * both, and none of them may make a line of its own, which could look like an audit line, or command the terminal.
 */
export function renderLine({ at, text }: LogLine, target: Pick<Target, "host" | "name"> | undefined): string {
  const clock = new Date(at / 1_000).toISOString().slice(11, 23);
  const who = target === undefined ? "" : ` ${target.host}/${target.name}`;
  return printable(`${clock}${who} ${readable(text)}`);
}

function readable(text: string): string {
  if (!text.startsWith("{")) return text;
  try {
    const entry = JSON.parse(text) as Record<string, unknown>;
    const fields = Object.entries(entry).filter(([key]) => !COMMON.has(key));
    const shown = fields.map(([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`);
    return [`${String(entry["level"] ?? "").padEnd(5)} ${String(entry["msg"] ?? "")}`, ...shown].join("  ");
  } catch {
    return text;
  }
}
