/** The user of this machine behind a connection over loopback, from Linux's tables of TCP sockets. */
import { readFile } from "node:fs/promises";
import { isIPv4 } from "node:net";

/** Both ends of a connection, as the server sees them. */
export interface Connection {
  readonly remoteAddress: string;
  readonly remotePort: number;
  readonly localAddress: string;
  readonly localPort: number;
}

const TABLES = ["/proc/net/tcp", "/proc/net/tcp6"] as const;
const ESTABLISHED = "01";
/** Characters of a line behind the state: longer than the columns up to the user id. */
const LINE_REST = 80;

/** The reads of a table that are under way: one, and one that begins when that ends. */
interface Reads {
  running: Promise<string> | undefined;
  next: Promise<string> | undefined;
}
const reads = new Map<string, Reads>(TABLES.map((table) => [table, { running: undefined, next: undefined }]));

/**
 * Reads a table. However many ask at once, one read at a time is under way, and each gets a read that began after it
 * asked: its own connection is in that. (A table has a line per socket, so a read for each of many connections would be
 * quadratic.)
 */
async function tableNow(table: string): Promise<string> {
  const own = reads.get(table)!;
  if (own.running !== undefined) {
    own.next ??= own.running.then(() => start(own, table));
    return own.next;
  }
  return start(own, table);
}

function start(own: Reads, table: string): Promise<string> {
  own.next = undefined;
  const running = readFile(table, "latin1").catch(() => "");
  own.running = running;
  void running.then(() => {
    if (own.running === running) own.running = undefined;
  });
  return running;
}

/**
 * Finds the user id of a connection's client.
 *
 * @returns undefined where the client's socket isn't in this network namespace, or is closed already, and on other
 *   systems than Linux
 */
export async function peerUid(connection: Connection): Promise<number | undefined> {
  for (const table of TABLES) {
    const uid = uidIn(await tableNow(table), connection);
    if (uid !== undefined) return uid;
  }
  return undefined;
}

/** @param table - the text of /proc/net/tcp or tcp6 */
export function uidIn(table: string, connection: Connection): number | undefined {
  const { remoteAddress, remotePort, localAddress, localPort } = connection;
  for (const client of endsOf(remoteAddress, remotePort))
    for (const server of endsOf(localAddress, localPort)) {
      // The client's own socket: our remote end is its local end.
      const wanted = ` ${client} ${server} ${ESTABLISHED} `;
      const at = table.indexOf(wanted);
      if (at < 0) continue;
      const [, , , uid = ""] = table.slice(at + wanted.length, at + wanted.length + LINE_REST).split(/\s+/);
      if (/^\d+$/.test(uid)) return Number(uid);
    }
  return undefined;
}

/**
 * An address in the tables' form. It has words of four bytes, the least significant first, and an IPv4 address perhaps
 * as IPv6.
 */
function endsOf(address: string, port: number): string[] {
  const end = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const plain = address.replace(/^::ffff:/, "");
  if (isIPv4(plain)) {
    const word = plain.split(".").reverse().map(hexOfByte).join("");
    return [word, `0000000000000000FFFF0000${word}`].map((text) => text + end);
  }
  return address === "::1" ? [`00000000000000000000000001000000${end}`] : [];
}

const hexOfByte = (byte: string): string => Number(byte).toString(16).toUpperCase().padStart(2, "0");
