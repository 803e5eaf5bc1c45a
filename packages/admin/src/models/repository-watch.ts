/**
 * Follows a repository of models: what is new or changed there is served, and what is gone is not.
 *
 *   WATCH-1. A repository that can't be listed changes nothing: what is served stays, and that is said once.
 *   WATCH-2. A model that can't be read stays as it was before, and is tried again when it changes; at the next look
 *            where trying again may help.
 *   WATCH-3. It takes back only models that it has brought.
 */
import type { RepositoryModel } from "../sources/remote-models.ts";
import { EXIT, explain } from "../failure.ts";

export interface WatchedRepository {
  list(): Promise<readonly RepositoryModel[]>;
  /** Reads the model, and serves it in place of what it was before. */
  serve(model: RepositoryModel): Promise<void>;
  /** @returns false where the model isn't the repository's: then it stays */
  remove(name: string): Promise<boolean>;
  say(event: "models-changed" | "models-faulty" | "models-unreachable", text: string, fields: object): void;
}

export class RepositoryWatch {
  readonly #repository: WatchedRepository;
  /** The tag that was tried last of each model, by name. */
  readonly #tags: Map<string, string>;
  /** The fault that was said last of each model. */
  readonly #said = new Map<string, string>();
  #isReachable = true;

  /** @param served - the models that were served from the repository at the start */
  constructor(repository: WatchedRepository, served: readonly RepositoryModel[]) {
    this.#repository = repository;
    this.#tags = new Map(served.map(({ name, tag }) => [name, tag]));
  }

  /** Looks once. It never fails. */
  async look(): Promise<void> {
    try {
      const listed = await this.#repository.list();
      if (!this.#isReachable) this.#repository.say("models-changed", "The models' repository can be read again.", {});
      this.#isReachable = true;
      for (const model of listed) if (this.#tags.get(model.name) !== model.tag) await this.#serve(model);
      const names = new Set(listed.map(({ name }) => name));
      for (const name of this.#tags.keys()) if (!names.has(name)) await this.#remove(name);
    } catch (error) {
      const why = explain(error).text;
      if (this.#isReachable)
        this.#repository.say("models-unreachable", `${why}. What is served stays as it is; tried again.`, { why });
      this.#isReachable = false;
    }
  }

  async #serve(model: RepositoryModel): Promise<void> {
    const { name, tag } = model;
    try {
      await this.#repository.serve(model);
    } catch (error) {
      const { text, retryable, exitCode } = explain(error);
      if (!retryable && exitCode !== EXIT.unavailable) this.#tags.set(name, tag);
      if (this.#said.get(name) !== text)
        this.#repository.say("models-faulty", `${name} is not taken over: ${text}`, { name, why: text });
      this.#said.set(name, text);
      return;
    }
    this.#said.delete(name);
    this.#tags.set(name, tag);
  }

  async #remove(name: string): Promise<void> {
    if (await this.#repository.remove(name))
      this.#repository.say("models-changed", `${name}: gone from the repository, and unloaded`, { name });
    this.#tags.delete(name);
    this.#said.delete(name);
  }
}
