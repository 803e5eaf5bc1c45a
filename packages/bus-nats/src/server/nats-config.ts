import { randomBytes } from "node:crypto";
import { OUR_PAYLOAD_BYTES_MAX, TuttiError } from "@tutti/protocol";
import {
  NATS_AUTH_SECONDS,
  NATS_CONNECTIONS_MAX,
  NATS_CONSUMERS_MAX,
  NATS_CONTROL_LINE_BYTES_MAX,
  NATS_MEMORY_BYTES_MAX,
  NATS_PENDING_BYTES_MAX,
  NATS_STREAMS_MAX,
  NATS_SUBSCRIPTIONS_MAX,
  NATS_TOKEN_LINE_BYTES_MAX,
} from "./nats-limits.ts";
import { LOCAL_USER, type NatsUser } from "./users.ts";

/** Paths of PEM files. */
export interface ServerTls {
  readonly certFile: string;
  readonly keyFile: string;
  /** Certificates of the authority that signed those of the other servers, and of clients where they have any. */
  readonly caFile?: string;
}

/** Settings that the servers of one cluster share, with this server's own address. */
export interface ClusterConfig {
  readonly name: string;
  readonly host: string;
  /** 0: a free port, which no other server can know. */
  readonly port: number;
  /** `host:port` of all servers of the cluster; its own may be among them. */
  readonly routes: readonly string[];
  /**
   * Password that all servers of the cluster know. The peer at the other end of a route may publish anything to
   * anybody.
   */
  readonly password: string;
  /** With it, both ends show a certificate that `caFile` has signed. */
  readonly tls?: ServerTls & { readonly caFile: string };
}

/** Tokens instead of public keys: see jwt-accounts.ts. */
export interface JwtAccess {
  readonly operator: string;
  readonly systemAccount: string;
  /** Tokens of accounts by their public keys. */
  readonly accounts: Readonly<Record<string, string>>;
}

export interface NatsConfigOptions {
  /** Default loopback. */
  readonly host?: string;
  /** 0: a free port. */
  readonly port: number;
  /** Directory of JetStream's buckets and files. */
  readonly storeDir: string;
  readonly serverName?: string;
  /** Monitoring over HTTP on loopback; 0: a free port; absent: none. */
  readonly monitoringPort?: number;
  /**
   * Users with the public keys that prove them. Without them and `jwt` every connection may do everything: for tests
   * only.
   */
  readonly users?: readonly (NatsUser & { readonly publicKey: string })[];
  /** Account of these users: no other account sees what a deployment publishes and stores. Default `tutti`. */
  readonly account?: string;
  /** Connections without credentials become the user `local`. Only on loopback. */
  readonly withLocalUser?: boolean;
  readonly jwt?: JwtAccess;
  /** With it, connections without TLS are refused. */
  readonly tls?: ServerTls;
  readonly cluster?: ClusterConfig;
  /** File for the server's process id, which a reload needs. */
  readonly pidFile?: string;
  readonly payloadBytesMax?: number;
  /** Time after which a consumer that reads nothing is cut off. Default 10 s. */
  readonly writeDeadlineMs?: number;
}

type NatsAccess = Pick<NatsConfigOptions, "users" | "account" | "withLocalUser" | "jwt">;

const SYSTEM_ACCOUNT = "SYS";

/** The text of a nats.conf for versions 2.9.10 and newer. Strings are quoted as in JSON, which that format contains. */
export function natsConfig(options: NatsConfigOptions): string {
  const host = options.host ?? "127.0.0.1";
  if (options.withLocalUser === true && !isLoopback(host)) {
    const text = `users without credentials are for the loopback address, not for ${host}: give applications credentials`;
    throw new TuttiError("TUTTI_FORBIDDEN", text);
  }
  const lines = [
    `listen: ${quoted(`${host}:${portText(options.port)}`)}`,
    `server_name: ${quoted(options.serverName ?? "tutti")}`,
    `max_payload: ${options.payloadBytesMax ?? OUR_PAYLOAD_BYTES_MAX}`,
    `max_connections: ${NATS_CONNECTIONS_MAX}`,
    `max_subscriptions: ${NATS_SUBSCRIPTIONS_MAX}`,
    `max_pending: ${NATS_PENDING_BYTES_MAX}`,
    `max_control_line: ${options.jwt === undefined ? NATS_CONTROL_LINE_BYTES_MAX : NATS_TOKEN_LINE_BYTES_MAX}`,
    // 2.9 stops a publisher whose consumer is slow, up to the deadline; then it cuts the slow one off.
    `write_deadline: "${options.writeDeadlineMs ?? 10_000}ms"`,
    `jetstream {`,
    `  store_dir: ${quoted(options.storeDir)}`,
    `}`,
  ];
  if (options.monitoringPort !== undefined) {
    lines.push(`http: ${quoted(`127.0.0.1:${portText(options.monitoringPort)}`)}`);
  }
  if (options.pidFile !== undefined) lines.push(`pid_file: ${quoted(options.pidFile)}`);
  if (options.tls !== undefined) lines.push(...tlsBlock(options.tls, ""));
  if (options.cluster !== undefined) lines.push(...clusterBlock(options.cluster));
  lines.push(...accessLines(options));
  return `${lines.join("\n")}\n`;
}

/** The part of a nats.conf that says who may connect, and do what, for a file that a configuration includes. */
export const natsUsersConfig = (access: NatsAccess): string => `${accessLines(access).join("\n")}\n`;

function accessLines({ users, account = "tutti", withLocalUser = false, jwt }: NatsAccess): string[] {
  if (users === undefined && jwt === undefined) return [];
  return [
    `authorization { timeout: ${NATS_AUTH_SECONDS} }`,
    ...(users === undefined ? [] : accountsBlock(account, users, withLocalUser)),
    ...(jwt === undefined ? [] : resolverBlock(jwt)),
  ];
}

/** Routes are mutual: each end is a client of the other, so both certificates are asked for. */
function tlsBlock({ certFile, keyFile, caFile }: ServerTls, indent: string, verify?: "mutual"): string[] {
  return [
    `tls {`,
    `  cert_file: ${quoted(certFile)}`,
    `  key_file: ${quoted(keyFile)}`,
    ...(caFile === undefined ? [] : [`  ca_file: ${quoted(caFile)}`]),
    ...(verify === undefined ? [] : [`  verify: true`]),
    // The default of half a second is short for a machine that is starting everything at once.
    `  timeout: 5`,
    `}`,
  ].map((line) => `${indent}${line}`);
}

const ROUTE_USER = "route";

function clusterBlock({ name, host, port, routes, password, tls }: ClusterConfig): string[] {
  const secret = encodeURIComponent(password);
  return [
    `cluster {`,
    `  name: ${quoted(name)}`,
    `  listen: ${quoted(`${host}:${portText(port)}`)}`,
    `  authorization { user: ${quoted(ROUTE_USER)}, password: ${quoted(password)}, timeout: 5 }`,
    `  routes: [${routes.map((route) => quoted(`nats-route://${ROUTE_USER}:${secret}@${route}`)).join(", ")}]`,
    ...(tls === undefined ? [] : tlsBlock(tls, "  ", "mutual")),
    `}`,
  ];
}

function accountsBlock(
  account: string,
  users: readonly (NatsUser & { readonly publicKey: string })[],
  withLocalUser: boolean,
): string[] {
  const blocks = users.map((user) => userBlock(user, `nkey: ${quoted(user.publicKey)}`));
  if (withLocalUser) {
    // The password is random and discarded: the user is reached only by giving no credentials.
    const password = randomBytes(24).toString("base64url");
    blocks.push(userBlock(LOCAL_USER, `user: ${quoted(LOCAL_USER.name)}, password: ${quoted(password)}`));
  }
  return [
    `accounts {`,
    `  ${quoted(account)}: {`,
    `    jetstream: {`,
    `      max_streams: ${NATS_STREAMS_MAX}, max_consumers: ${NATS_CONSUMERS_MAX}, max_mem: ${NATS_MEMORY_BYTES_MAX}`,
    `    }`,
    `    users: [`,
    ...blocks,
    `    ]`,
    `  }`,
    // Without users: no connection sees the server's own events.
    `  ${SYSTEM_ACCOUNT}: { users: [] }`,
    `}`,
    `system_account: ${SYSTEM_ACCOUNT}`,
    ...(withLocalUser ? [`no_auth_user: ${quoted(LOCAL_USER.name)}`] : []),
  ];
}

function resolverBlock({ operator, systemAccount, accounts }: JwtAccess): string[] {
  const preload = Object.entries(accounts).map(([key, token]) => `  ${key}: ${quoted(token)}`);
  return [
    `operator: ${quoted(operator)}`,
    `system_account: ${quoted(systemAccount)}`,
    `resolver: MEMORY`,
    `resolver_preload {`,
    ...preload,
    `}`,
  ];
}

const userBlock = (user: NatsUser, identity: string): string => `      # ${user.name}
      { ${identity}
        permissions: {
          publish: { allow: [${user.publish.map(quoted).join(", ")}] }
          subscribe: { allow: [${user.subscribe.map(quoted).join(", ")}]${neverOf(user)} }
        }
      }`;

const neverOf = ({ neverSubscribe = [] }: NatsUser): string =>
  neverSubscribe.length === 0 ? "" : `, deny: [${neverSubscribe.map(quoted).join(", ")}]`;

const quoted = (text: string): string => JSON.stringify(text);
const portText = (port: number): number => (port === 0 ? -1 : port);
const isLoopback = (host: string): boolean => host === "localhost" || host === "::1" || host.startsWith("127.");
