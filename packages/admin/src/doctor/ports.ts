/** The ports that `tutti up` prefers, and the processes that hold them. */
import { readFileSync, readdirSync, readlinkSync } from "node:fs";
import { isFree } from "../cluster/free-port.ts";
import type { Finding } from "./finding.ts";

export interface WantedPort {
  readonly port: number;
  readonly what: string;
  readonly flag: string;
}

export const WANTED_PORTS: readonly WantedPort[] = [
  { port: 4222, what: "NATS", flag: "--port" },
  { port: 8000, what: "HTTP", flag: "--http-port" },
  { port: 8001, what: "gRPC", flag: "--grpc-port" },
  { port: 8002, what: "metrics", flag: "--metrics-port" },
];

export interface Holder {
  readonly pid: number;
  readonly command: string;
}

/** @param taken - undefined: the port is free; `isOurs`: a running Tutti holds it */
export function judgePort(
  { port, what, flag }: WantedPort,
  taken: { readonly holder: Holder | undefined; readonly isOurs: boolean } | undefined,
): Finding {
  const check = `port ${port}`;
  if (taken === undefined) return { check, state: "ok", found: `free (${what})` };
  const { holder, isOurs } = taken;
  const who = holder === undefined ? "somebody whom this user may not see" : `${holder.command} (pid ${holder.pid})`;
  if (isOurs) return { check, state: "ok", found: `${what} of the Tutti that runs here: ${who}` };
  return {
    check,
    state: "note",
    found: `taken by ${who}`,
    why: `\`tutti up\` takes any other for ${what} then, and says which.`,
    next: `name one with ${flag} if others must know it beforehand${port === 4222 ? "; if it is a NATS server, use it with --nats" : ""}`,
  };
}

/** @param ours - pids of `tutti up` and its descendants */
export async function lookAtPorts(ours: ReadonlySet<number>): Promise<Finding[]> {
  return Promise.all(
    WANTED_PORTS.map(async (wanted) => {
      if (await isFree(wanted.port)) return judgePort(wanted, undefined);
      const holder = holderOf(wanted.port);
      return judgePort(wanted, { holder, isOurs: holder !== undefined && ours.has(holder.pid) });
    }),
  );
}

/** Finds the process that listens on a port; undefined: invisible (another user's process, or no Linux). */
export function holderOf(port: number): Holder | undefined {
  const inodes = new Set(["tcp", "tcp6"].flatMap((table) => listening(read(`/proc/net/${table}`), port)));
  if (inodes.size === 0) return undefined;
  for (const name of names("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    for (const file of names(`/proc/${name}/fd`)) {
      const inode = /^socket:\[(\d+)\]$/.exec(link(`/proc/${name}/fd/${file}`))?.[1];
      if (inode !== undefined && inodes.has(inode)) return { pid: Number(name), command: commandOf(name) };
    }
  }
  return undefined;
}

/** Inodes of sockets that listen on a port, in a table of /proc/net. */
export function listening(table: string, port: number): string[] {
  const wanted = port.toString(16).toUpperCase().padStart(4, "0");
  return table.split("\n").flatMap((line) => {
    const [, local = "", , state = "", , , , , , inode] = line.trim().split(/\s+/);
    return state === "0A" && local.endsWith(`:${wanted}`) && inode !== undefined ? [inode] : [];
  });
}

/** The processes in `roots` and all their descendants; only `roots` where there is no /proc. */
export function descendants(roots: readonly number[]): Set<number> {
  const parents = names("/proc").flatMap((name) => {
    const fields = /^\d+$/.test(name) ? read(`/proc/${name}/stat`) : "";
    const parent = Number(fields.slice(fields.lastIndexOf(")") + 2).split(" ")[1]);
    return Number.isInteger(parent) ? [[Number(name), parent] as const] : [];
  });
  const found = new Set(roots);
  for (let before = 0; before !== found.size;) {
    before = found.size;
    for (const [pid, parent] of parents) if (found.has(parent)) found.add(pid);
  }
  return found;
}

function commandOf(pid: string): string {
  const [program = "", script = ""] = read(`/proc/${pid}/cmdline`).split("\0");
  const base = (path: string): string => path.split("/").at(-1) ?? path;
  const shown =
    /^(node|python\d?|java|ruby)/.test(base(program)) && script !== "" ? `${base(program)} ${script}` : base(program);
  return shown === "" ? read(`/proc/${pid}/comm`).trim() : shown;
}
function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
function names(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}
function link(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}
