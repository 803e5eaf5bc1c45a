import { randomBytes } from "node:crypto";
import { OUR_PAYLOAD_BYTES_MAX } from "@tutti/protocol";
import { TuttiError } from "@tutti/protocol";
import { LOCAL_USER, type NatsUser } from "./users.ts";

export interface NatsConfigOptions {
  /** Default loopback. */
  readonly host?: string;
  /** 0: a free one. */
  readonly port: number;
  /** Where JetStream keeps buckets and files. */
  readonly storeDir: string;
  readonly serverName?: string;
  /** Monitoring over HTTP on loopback; 0: a free port; absent: none. */
  readonly monitoringPort?: number;
  /** Users with the public keys that they prove themselves with. Absent: everyone may do everything, for tests only. */
  readonly users?: readonly (NatsUser & { readonly publicKey: string })[];
  /** Connections without credentials become the user `local`. Only on loopback. */
  readonly withLocalUser?: boolean;
  readonly payloadBytesMax?: number;
}

/** The text of a nats.conf for versions 2.9.10 and newer. Strings are quoted as in JSON, which that format contains. */
export function natsConfig(options: NatsConfigOptions): string {
  const host = options.host ?? "127.0.0.1";
  if (options.withLocalUser === true && !isLoopback(host)) {
    const text = `users without credentials are for the loopback address, not for ${host}: give applications credentials`;
    throw new TuttiError("TUTTI_FORBIDDEN", text);
  }
  const lines = [
    `listen: ${quoted(`${host}:${options.port === 0 ? -1 : options.port}`)}`,
    `server_name: ${quoted(options.serverName ?? "tutti")}`,
    `max_payload: ${options.payloadBytesMax ?? OUR_PAYLOAD_BYTES_MAX}`,
    // 2.9 stops a publisher whose consumer is slow, up to the deadline; then the slow one is cut off.
    `write_deadline: "10s"`,
    `jetstream {`,
    `  store_dir: ${quoted(options.storeDir)}`,
    `}`,
  ];
  if (options.monitoringPort !== undefined) {
    lines.push(`http: ${quoted(`127.0.0.1:${options.monitoringPort === 0 ? -1 : options.monitoringPort}`)}`);
  }
  if (options.users !== undefined) lines.push(...authorization(options.users, options.withLocalUser ?? false));
  return `${lines.join("\n")}\n`;
}

function authorization(
  users: readonly (NatsUser & { readonly publicKey: string })[],
  withLocalUser: boolean,
): string[] {
  const blocks = users.map((user) => userBlock(user, `nkey: ${quoted(user.publicKey)}`));
  if (!withLocalUser) return ["authorization {", "  users = [", ...blocks, "  ]", "}"];
  // Nobody knows the password: the user is reached only by giving no credentials.
  const password = randomBytes(24).toString("base64url");
  blocks.push(userBlock(LOCAL_USER, `user: ${quoted(LOCAL_USER.name)}, password: ${quoted(password)}`));
  return ["authorization {", "  users = [", ...blocks, "  ]", "}", `no_auth_user: ${quoted(LOCAL_USER.name)}`];
}

const userBlock = (user: NatsUser, identity: string): string => `    # ${user.name}
    { ${identity}
      permissions: {
        publish: { allow: [${user.publish.map(quoted).join(", ")}] }
        subscribe: { allow: [${user.subscribe.map(quoted).join(", ")}]${neverOf(user)} }
      }
    }`;

const neverOf = ({ neverSubscribe = [] }: NatsUser): string =>
  neverSubscribe.length === 0 ? "" : `, deny: [${neverSubscribe.map(quoted).join(", ")}]`;

const quoted = (text: string): string => JSON.stringify(text);
const isLoopback = (host: string): boolean => host === "localhost" || host === "::1" || host.startsWith("127.");
