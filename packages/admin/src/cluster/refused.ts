/** Errors of commands that NATS refuses: they name the credentials that the command needs. */
import type { NatsConnection } from "@tutti/bus-nats";
import { TuttiError } from "@tutti/protocol";
import { shownAddresses } from "@tutti/units";
import { type Cluster, livingClusters, runRoot } from "./find-cluster.ts";

/** User whose credentials a command needs: the operator's, or those that may listen to requests. */
type User = "admin" | "recorder";
type Refuser = Pick<Cluster, "servers" | "credentials"> & {
  /** An application might run the command with its own credentials, which are too little for it. */
  readonly isForApps?: boolean;
};

/** The server doesn't let the command in. @param error - of the connection; others than refusals are returned */
export async function connectionRefused(error: unknown, cluster: Refuser, user: User = "admin"): Promise<unknown> {
  if (!(error instanceof TuttiError && error.code === "TUTTI_FORBIDDEN")) return error;
  const { servers, credentials } = cluster;
  const what = credentials === undefined ? "asks for credentials" : `does not accept ${credentials}`;
  return new TuttiError("TUTTI_FORBIDDEN", `${shownAddresses(servers)} ${what}: ${await adviceFor(user)}`, {
    cause: error,
  });
}

/** The server doesn't allow a subject. */
async function subjectRefused(subject: string, { servers, credentials, isForApps }: Refuser): Promise<TuttiError> {
  const as = credentials === undefined ? "without credentials" : `with ${credentials}`;
  const advice = `${credentials !== undefined && isForApps === true ? FOR_APPS : ""}${await adviceFor("admin")}`;
  return new TuttiError(
    "TUTTI_FORBIDDEN",
    `${shownAddresses(servers)} does not allow this ${as} (${subject}): ${advice}`,
  );
}

/** An application has no credentials but its own, and is right to use them. */
const FOR_APPS =
  "the command looks models up, for which an application's credentials are too little. They are for programs, such as those in docs/guides/publisher.md; for this command ";

/** Names the file of a cluster that runs on this machine, which is the likeliest one. */
async function adviceFor(user: User): Promise<string> {
  const [here] = (await livingClusters(runRoot())).flatMap(({ credentials }) => credentials?.[user] ?? []);
  const path = here ?? `creds/${user}.nk`;
  const origin = here === undefined ? " (`tutti auth init` makes it)" : "";
  return `name the ${user === "admin" ? "operator's" : "recorder's"} with --creds ${path}${origin}, or with TUTTI_CREDS`;
}

/**
 * Runs `work`, and fails as soon as NATS refuses a subject. Without the operator's credentials no message would ever
 * arrive.
 *
 * @throws {TuttiError} FORBIDDEN, naming the credentials to use
 */
export async function unlessDenied<Result>(
  { control, bulk }: Pick<NatsConnection, "control" | "bulk">,
  cluster: Refuser,
  work: () => Promise<Result>,
): Promise<Result> {
  const { promise: denied, reject } = Promise.withResolvers<never>();
  denied.catch(() => undefined);
  const fail = (subject: string): void => void subjectRefused(subject, cluster).then(reject);
  const listening = [control, bulk].map((bus) =>
    bus.onStatus((status) => {
      if (status.kind === "permission-denied") fail(status.subject);
    }),
  );
  try {
    return await Promise.race([work(), denied]);
  } catch (error) {
    // The store's own error may come before the connection's status, and has no advice.
    const [, subject] = (error instanceof Error && VIOLATION.exec(error.message)) || [];
    throw subject === undefined ? error : await subjectRefused(subject, cluster);
  } finally {
    for (const one of listening) one.stop();
  }
}

/** Error of nats-server: Permissions Violation for Subscription to "_INBOX.x" */
const VIOLATION = /permissions violation for \w+ to "([^"]*)"/i;
