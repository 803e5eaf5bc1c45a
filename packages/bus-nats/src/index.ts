export { type NatsConnection, type NatsOptions, SERVER_VERSION_MIN, connectNats } from "./connect-nats.ts";
export { type Credentials, readCredentials } from "./credentials.ts";
