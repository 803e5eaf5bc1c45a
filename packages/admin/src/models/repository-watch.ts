/**
 * Follows a repository of models: what is new or changed there is served, and what is gone is not.
 *
 *   WATCH-1. A repository that can't be listed changes nothing: what is served stays, and that is said once. One that
 *            has lost all its models at once counts as such: a wrong mount or another bucket's policy looks like that.
 *   WATCH-2. A model that can't be read stays as it was before, and is tried again when it changes; at the next look
 *            where trying again may help, as it may whenever the cluster's state is in the way.
 *   WATCH-3. It replaces and takes back only models that it has brought.
 */
import type { RepositoryListing, RepositoryModel } from "../sources/remote-models.ts";
import { EXIT, explain } from "../failure.ts";

/** @typeParam File - a model as it was read */
export interface WatchedRepository<File> {
  list(): Promise<RepositoryListing>;
  /** @throws where the cluster's state doesn't allow the model to be served from here */
  admit(name: string): Promise<void>;
  read(model: RepositoryModel): Promise<File>;
  /** Asks the cluster to serve it in place of what it was before, and doesn't wait until it does. */
  serve(model: RepositoryModel, file: File): Promise<void>;
  /** @returns false where the model isn't the repository's: then it stays */
  remove(name: string): Promise<boolean>;
  say(event: "models-changed" | "models-faulty" | "models-unreachable", text: string, fields: object): void;
}

export class RepositoryWatch<File> {
  readonly #repository: WatchedRepository<File>;
  /** The tag that was tried last of each model, by name. */
  readonly #tags: Map<string, string>;
  /** The fault that was said last of each model. */
  readonly #said = new Map<string, string>();
  #isReachable = true;

  /** @param served - the models that were served from the repository at the start */
  constructor(repository: WatchedRepository<File>, served: readonly RepositoryModel[]) {
    this.#repository = repository;
    this.#tags = new Map(served.map(({ name, tag }) => [name, tag]));
  }

  /** Looks once. It never fails, and once `signal` is aborted it says nothing more. */
  async look(signal?: AbortSignal): Promise<void> {
    const listing = await this.#list(signal);
    if (listing === undefined) return;
    const { models, faulty } = listing;
    for (const { name, fault } of faulty) this.#fault(name, explain(fault).text);
    for (const model of models) {
      if (this.#tags.get(model.name) !== model.tag) await this.#serve(model, signal);
      if (signal?.aborted === true) return;
    }
    const names = new Set([...models, ...faulty].map(({ name }) => name));
    for (const name of this.#tags.keys()) {
      if (!names.has(name)) await this.#remove(name);
      if (signal?.aborted === true) return;
    }
    for (const name of this.#said.keys()) if (!names.has(name) && !this.#tags.has(name)) this.#said.delete(name);
  }

  /** @returns undefined where it can't be known what the repository holds */
  async #list(signal: AbortSignal | undefined): Promise<RepositoryListing | undefined> {
    let why: string;
    try {
      const listing = await this.#repository.list();
      const isEmpty = listing.models.length === 0 && listing.faulty.length === 0;
      if (!isEmpty || this.#tags.size === 0) {
        if (!this.#isReachable) this.#repository.say("models-changed", "The models' repository can be read again.", {});
        this.#isReachable = true;
        return listing;
      }
      why = "the models' repository has no models any more (`tutti unload` takes the last ones away)";
    } catch (error) {
      why = explain(error).text;
    }
    if (this.#isReachable && signal?.aborted !== true) {
      const text = `${why}. Until it can be read again, what is served stays as it is.`;
      this.#repository.say("models-unreachable", text, { why });
    }
    this.#isReachable = false;
    return undefined;
  }

  async #serve(model: RepositoryModel, signal: AbortSignal | undefined): Promise<void> {
    const { name, tag } = model;
    let isOfFile = false;
    try {
      await this.#repository.admit(name);
      isOfFile = true;
      const file = await this.#repository.read(model);
      isOfFile = false;
      await this.#repository.serve(model, file);
    } catch (error) {
      if (signal?.aborted === true) return;
      const { text, retryable, exitCode } = explain(error);
      if (isOfFile && !retryable && exitCode !== EXIT.unavailable) this.#tags.set(name, tag);
      this.#fault(name, text);
      return;
    }
    this.#said.delete(name);
    this.#tags.set(name, tag);
  }

  async #remove(name: string): Promise<void> {
    try {
      if (await this.#repository.remove(name))
        this.#repository.say("models-changed", `${name}: gone from the repository, and unloaded`, { name });
    } catch (error) {
      const why = explain(error).text;
      this.#sayOnce(name, why, `${name} is gone from the repository, and stays: ${why}`);
      return;
    }
    this.#tags.delete(name);
    this.#said.delete(name);
  }

  #fault(name: string, why: string): void {
    this.#sayOnce(name, why, `${name} is not taken over: ${why}`);
  }

  #sayOnce(name: string, why: string, text: string): void {
    if (this.#said.get(name) !== why) this.#repository.say("models-faulty", text, { name, why });
    this.#said.set(name, why);
  }
}
