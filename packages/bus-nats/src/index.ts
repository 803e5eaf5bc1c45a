export { type BusOptions, type NatsBuses, SERVER_VERSION_MIN, connectBuses, isAtLeast } from "./connect-buses.ts";
export { type NatsConnection, type NatsOptions, connectNats } from "./connect-nats.ts";
export { type Credentials, inboxPrefixOf, readCredentials } from "./credentials.ts";
export { type UserFile, createNkey, writeCredentials } from "./server/credentials-files.ts";
export {
  type Authority,
  type IssuedUser,
  createSigningAuthority,
  issueUser,
  jwtAccess,
} from "./server/jwt-accounts.ts";
export { reloadNatsServer } from "./server/reload.ts";
export { findNatsServer } from "./server/nats-binary.ts";
export {
  type ClusterConfig,
  type JwtAccess,
  type NatsConfigOptions,
  type ServerTls,
  natsConfig,
  natsUsersConfig,
} from "./server/nats-config.ts";
export {
  NATS_CONNECTIONS_MAX,
  NATS_PENDING_BYTES_MAX,
  NATS_STREAMS_MAX,
  NATS_SUBSCRIPTIONS_MAX,
} from "./server/nats-limits.ts";
export { type NatsServer, type NatsServerOptions, startNatsServer } from "./server/nats-server.ts";
export { LOCAL_USER, type NatsUser, roleInboxPrefix, usersOf } from "./server/users.ts";
export {
  NatsDataClient,
  type NatsDataFigures,
  type NatsDataOptions,
  type NatsDataServer,
  nearFirst,
  serveNats,
} from "./pull-nats.ts";
export { FrameIntake } from "./frame-intake.ts";
