import { connectBuses, readCredentials } from "@tutti/bus-nats";
import { TuttiError } from "@tutti/protocol";
import type { InferResult } from "./answer.ts";
import { type ClientOptions, type InferOptions, TuttiClient, checkApp } from "./client.ts";
import type { Job, SubmitOptions, SubmittedJob } from "./jobs.ts";
import type { TensorInput } from "./tensors.ts";

export interface ConnectOptions extends ClientOptions {
  /** `nats://host:4222`, one or several of a cluster. */
  readonly servers: string | readonly string[];
  /** File with the application's credentials: only they may subscribe below `_INBOX.<app>`, where its answers go. */
  readonly credentials?: string;
  /**
   * Paths of PEM files; with them, only TLS is accepted. `caFile`: the certificate of the authority that signed the
   * servers' certificates. `certFile` and `keyFile`: the client's own, where the servers ask for one.
   */
  readonly tls?: { readonly caFile?: string; readonly certFile?: string; readonly keyFile?: string };
  /** Name of this connection in the server's lists. */
  readonly name?: string;
}

export interface Tutti {
  infer(target: string, inputs: Readonly<Record<string, TensorInput>>, options?: InferOptions): Promise<InferResult>;
  /**
   * Puts a background job into the durable queue and resolves as soon as it is there. It runs when accelerators have
   * nothing else to do; `result()` of what comes back waits for its outputs.
   */
  submit(target: string, inputs: Readonly<Record<string, TensorInput>>, options?: SubmitOptions): Promise<SubmittedJob>;
  /** A job that was submitted before, perhaps by another process of the application. */
  job(target: string, id: string): Job;
  readonly inFlight: number;
  readonly lateAnswers: number;
  /** Ends what is in flight with CANCELLED, and closes the connection. */
  close(): Promise<void>;
}

/**
 * Connects to the cluster; rejects with UNAVAILABLE when no server can be reached, FORBIDDEN when it refuses the
 * credentials, INVALID_INPUT when `app` is no name or `servers` are missing.
 */
export async function connect(options: ConnectOptions): Promise<Tutti> {
  const { servers, credentials, tls, name = "tutti-client", ...client } = options;
  if (client.app !== undefined) checkApp(client.app);
  if (servers === undefined || servers.length === 0)
    throw new TuttiError("TUTTI_INVALID_INPUT", 'servers: give an address, such as "nats://127.0.0.1:4222"');
  const { buses } = await connectBuses({
    servers,
    name,
    inboxPrefix: client.app === undefined ? "_INBOX" : `_INBOX.${client.app}`,
    ...(credentials !== undefined && { credentials: readCredentials(credentials) }),
    ...(tls !== undefined && { tls }),
  });
  const tutti = new TuttiClient(buses.bulk, client);
  return {
    infer: (target, inputs, inferOptions) => tutti.infer(target, inputs, inferOptions),
    submit: (target, inputs, submitOptions) => tutti.jobs.submit(target, inputs, submitOptions),
    job: (target, id) => tutti.jobs.job(target, id),
    get inFlight() {
      return tutti.inFlight;
    },
    get lateAnswers() {
      return tutti.lateAnswers;
    },
    async close() {
      tutti.close();
      await buses.close();
    },
  };
}
