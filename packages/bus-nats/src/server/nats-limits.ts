/**
 * What one client, or all of a deployment together, may take of a NATS server. Where the server has no limit per user
 * (2.9 has none in its configuration), the limit is one for each connection, far beyond what a process of ours takes.
 */

/**
 * Connections at once, of everybody: a process has three at most, an application's client one or two. One more is
 * refused.
 */
export const NATS_CONNECTIONS_MAX = 8_192;
/**
 * Of one connection: a gateway has one for each application (GATEWAY_APPS_MAX), and nobody else has more than some
 * dozens. One more is refused.
 */
export const NATS_SUBSCRIPTIONS_MAX = 4_096;
/** Bytes that wait for one connection that does not read; then it is cut off. Eight messages of the largest size. */
export const NATS_PENDING_BYTES_MAX = 67_108_864;
/** Of a line of the protocol: subjects and lengths, and what a client says of itself when it connects. */
export const NATS_CONTROL_LINE_BYTES_MAX = 4_096;
/** A signed token has all of its user's permissions, and comes in one line. */
export const NATS_TOKEN_LINE_BYTES_MAX = 32_768;
/** Streams of a deployment: five buckets and one of files, and room for what an operator keeps beside them. */
export const NATS_STREAMS_MAX = 64;
/** Consumers of each stream: one for each bucket that a process watches, until it is known to be gone. */
export const NATS_CONSUMERS_MAX = 8_192;
/** Everything is stored in files; consumers' own state is small. */
export const NATS_MEMORY_BYTES_MAX = 67_108_864;
/**
 * Who has not proved by then who it is is cut off. Seconds; long enough for a machine that is starting everything at
 * once.
 */
export const NATS_AUTH_SECONDS = 5;
