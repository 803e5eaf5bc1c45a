/**
 * docs/reference/subjects.md: every NATS subject, header, bucket and user, as `packages/protocol` and
 * `packages/bus-nats` declare them.
 */
import { LOCAL_USER, usersOf } from "@tutti/bus-nats";
import * as protocol from "@tutti/protocol";
import type { MessageType } from "@tutti/protocol";
import { propertiesOf, table } from "./code-comments.ts";

const SUBJECTS = "packages/protocol/src/subjects.ts";
const CLUSTER = "<cluster>";
const APP = "<app>";

export function subjectsReference(): string {
  const made = protocol.subjectsOf(CLUSTER) as unknown as Readonly<Record<string, string | ((of: never) => string)>>;
  const users = [...usersOf({ cluster: CLUSTER_NAME, apps: [APP_NAME] }), LOCAL_USER];
  const internal = propertiesOf(SUBJECTS, "subjectsOf")
    .filter(({ name }) => name in made && name !== "prefix")
    .map(({ name, comment }) => {
      const make = made[name]!;
      const subject = typeof make === "string" ? make : make((ARGUMENT[name] ?? 1) as never);
      return [`\`${subject.replace(/\.1$/, ".<actor>")}\``, comment];
    });
  return [
    "# Subjects",
    "What travels on which subject, and who may. How requests and answers look: [messages](../messages.md); what internal messages are for and how their loss is repaired: [architecture](../architecture.md#7-subjects-messages-errors).",
    "## For publishers",
    table(
      ["subject", "what"],
      [
        [
          `\`infer.<target>.${APP}\``,
          `a request for a model or pipeline, to the queue group \`${protocol.INFER_QUEUE}\`; the answer goes to its reply subject, below \`_INBOX.${APP}\``,
        ],
        [`\`cancel.${APP}\``, "takes a request back; the payload is its reply subject"],
        ["`$SRV.PING`, `$SRV.INFO`, `$SRV.STATS`", "the NATS services protocol: `nats micro ls` finds every actor"],
      ],
    ),
    "## Inside",
    "Of a cluster called `<cluster>` (`main` unless it is named otherwise). An actor's key is a new one with every start.",
    table(["subject", "what"], internal),
    "## Headers",
    table(
      ["header", "name in code"],
      Object.entries(protocol.HEADER).map(([name, header]) => [`\`${header}\``, `\`HEADER.${name}\``]),
    ),
    "## Internal messages",
    table(
      ["tag", "message", "from", "to"],
      messages().map(({ tag, name, from, to }) => [String(tag), `\`${name}\``, from, to]),
    ),
    "## Buckets of the store",
    table(
      ["bucket", "kind"],
      [
        ...Object.values(protocol.BUCKET).map((name) => [`\`${name}\``, "JetStream KV"]),
        [`\`${protocol.FILES_BUCKET}\``, "JetStream object store"],
      ],
    ),
    "## Users",
    "Of a cluster with accounts (`tutti auth`). What the store takes is left out here, and told in [security](../security.md).",
    table(
      ["user", "may publish", "may subscribe"],
      users.map((user) => [user.name, patterns(user.publish), patterns(user.subscribe)].map(named)),
    ),
  ].join("\n\n");
}

/** Placeholders that are valid names. */
const CLUSTER_NAME = "cluster-x";
const APP_NAME = "x-of-nobody";
const named = (text: string): string => text.replaceAll(CLUSTER_NAME, CLUSTER).replaceAll(APP_NAME, APP);
const patterns = (all: readonly string[]): string =>
  all
    .filter((one) => !one.startsWith("$JS.") && !one.startsWith("$KV.") && !one.startsWith("$O."))
    .map((one) => `\`${one}\``)
    .join(", ") || "(the store)";

/** Arguments of subjects; all other subjects with an argument take an actor's key. */
const ARGUMENT: Readonly<Record<string, unknown>> = {
  role: "<role>",
  beat: "<role>",
  stats: "<role>",
};

function messages(): MessageType<unknown>[] {
  const isMessage = (value: unknown): value is MessageType<unknown> =>
    typeof value === "object" && value !== null && "tag" in value && "repair" in value;
  return Object.values<unknown>(protocol)
    .filter(isMessage)
    .toSorted((a, b) => a.tag - b.tag);
}
