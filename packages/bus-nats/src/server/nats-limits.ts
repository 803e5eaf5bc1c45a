/**
 * Limits of a NATS server per client, or per deployment. Where the server has no limit per user (2.9 has none in its
 * configuration), the limit holds per connection, far above what one of our processes takes.
 */

/**
 * Connections of all clients at once: a process has three at most, an application's client one or two. One more is
 * refused.
 */
export const NATS_CONNECTIONS_MAX = 8_192;
/**
 * Subscriptions per connection. A gateway has one for each application (GATEWAY_APPS_MAX), any other process some
 * dozens at most. One more is refused.
 */
export const NATS_SUBSCRIPTIONS_MAX = 4_096;
/**
 * Bytes that may wait for one connection that does not read; then it is cut off, and what waits is lost. Newer servers
 * than 2.9 slow a publisher down by 5 ms a message only: where 64 MB may wait, an ingress that reads 250 MB of long
 * bodies is cut off before it has caught up.
 */
export const NATS_PENDING_BYTES_MAX = 268_435_456;
/** Bytes of one protocol line: subjects and lengths, and the options that a client sends when it connects. */
export const NATS_CONTROL_LINE_BYTES_MAX = 4_096;
/** Bytes of one protocol line with signed tokens. A token has all of its user's permissions, and comes in one line. */
export const NATS_TOKEN_LINE_BYTES_MAX = 32_768;
/**
 * Streams of a deployment: four KV buckets, one object bucket, and room for those that an operator keeps beside them.
 */
export const NATS_STREAMS_MAX = 64;
/** Consumers of each stream: one for each bucket that a process watches, until the server finds the process gone. */
export const NATS_CONSUMERS_MAX = 8_192;
/** Everything is stored in files; consumers' own state is small. */
export const NATS_MEMORY_BYTES_MAX = 67_108_864;
/**
 * Seconds after which a connection that has not authenticated is cut off. Long enough for a machine that is starting
 * everything at once.
 */
export const NATS_AUTH_SECONDS = 5;
