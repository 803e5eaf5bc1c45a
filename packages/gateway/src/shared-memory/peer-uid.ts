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

/**
 * Finds the user id of a connection's client.
 *
 * @returns undefined where the client's socket isn't in this network namespace, or is closed already, and on other
 *   systems than Linux
 */
export async function peerUid(connection: Connection): Promise<number | undefined> {
  for (const table of TABLES) {
    const text = await readFile(table, "latin1").catch(() => "");
    const uid = uidIn(text, connection);
    if (uid !== undefined) return uid;
  }
  return undefined;
}

/** @param table - the text of /proc/net/tcp or tcp6 */
export function uidIn(table: string, connection: Connection): number | undefined {
  const { remoteAddress, remotePort, localAddress, localPort } = connection;
  const clients = endsOf(remoteAddress, remotePort);
  const servers = endsOf(localAddress, localPort);
  for (const line of table.split("\n").slice(1)) {
    // The client's own socket: our remote end is its local end.
    const [, local = "", remote = "", state, , , , uid = ""] = line.trim().split(/\s+/);
    if (state === ESTABLISHED && clients.includes(local) && servers.includes(remote) && /^\d+$/.test(uid))
      return Number(uid);
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
