/**
 * Restarts from the page. They need the operator's rights, which a gateway has only with `--repository-creds`. They run
 * one at a time, under the operators' lock; each step is sent to all pages and logged.
 */
import { type ClusterView, OperatorLink, restartActor } from "@tutti/admin/operators";
import type { Bus } from "@tutti/ports/bus";
import type { FeedOperation } from "../index.ts";
import { type AgentAnswered, TuttiError } from "@tutti/protocol";
import type { Store } from "@tutti/ports/store";
import type { Logger } from "@tutti/ports/telemetry";

export interface OperatorPorts {
  /** A bus with the rights of an operator. */
  readonly bus: Bus;
  readonly store: Store;
}

export interface RestartsOptions {
  readonly operator: OperatorPorts;
  readonly cluster: string;
  readonly log: Logger;
  /** Runs `use` with a view that listens meanwhile. */
  readonly withView: <T>(use: (view: ClusterView) => Promise<T>) => Promise<T>;
  readonly tell: (operation: FeedOperation) => void;
}

/** Format of an actor's id. */
const ACTOR = /^[0-9a-z]{1,16}$/;
/** Time that a view listens before it counts as complete. */
const LISTEN_MS = 3_000;
const AGENTS_MS = 500;

export class Restarts {
  readonly #options: RestartsOptions;
  readonly #link: OperatorLink;
  #underway: string | undefined;
  #agents: readonly AgentAnswered[] = [];
  #isAsking = false;

  constructor(options: RestartsOptions) {
    this.#options = options;
    this.#link = new OperatorLink(options.operator.bus, options.cluster);
  }

  /** The agents' last answers. */
  get agents(): readonly AgentAnswered[] {
    return this.#agents;
  }

  /** Asks the agents for names of processes and counts of restarts. A restart in progress asks them itself. */
  async askAgents(): Promise<void> {
    if (this.#isAsking || this.#underway !== undefined) return;
    this.#isAsking = true;
    try {
      this.#agents = await this.#link.agents(AGENTS_MS);
    } finally {
      this.#isAsking = false;
    }
  }

  /** @param from - the address of the requester. @throws {TuttiError} */
  async restart(actor: unknown, from: string): Promise<void> {
    if (typeof actor !== "string" || !ACTOR.test(actor))
      throw new TuttiError("TUTTI_INVALID_INPUT", "say which actor: the id that the table of actors has");
    if (this.#underway !== undefined)
      throw new TuttiError("TUTTI_OVERLOADED", `${this.#underway} is being restarted: one at a time`, {
        retryAfterMs: 5_000,
      });
    const { log, tell } = this.#options;
    const what = `restart ${actor}`;
    const say = (text: string, end?: "done" | "failed"): void => {
      log.info({ audit: "console", what, from, end }, text);
      tell({ at: Date.now(), what, text, ...(end !== undefined && { end }) });
    };
    this.#underway = actor;
    try {
      say(`asked for by ${from}`);
      await this.#run(actor, from, (text) => say(text));
      say("done", "done");
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      say(text, "failed");
      throw error instanceof TuttiError ? error : new TuttiError("TUTTI_UNAVAILABLE", text, { cause: error });
    } finally {
      this.#underway = undefined;
      void this.askAgents();
    }
  }

  close(): void {
    this.#link.close();
  }

  #run(actor: string, from: string, onText: (text: string) => void): Promise<void> {
    return this.#options.withView(async (view) => {
      await view.until(() => view.hasReports(1), LISTEN_MS);
      const { store } = this.#options.operator;
      await restartActor(actor, { link: this.#link, store, view, who: `console (${from})`, onText });
    });
  }
}
