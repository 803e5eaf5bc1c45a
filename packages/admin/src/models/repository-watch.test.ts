import { expect, test } from "vitest";
import type { RepositoryModel } from "../sources/remote-models.ts";
import { CommandError, EXIT } from "../failure.ts";
import { RepositoryWatch } from "./repository-watch.ts";

const model = (name: string, tag: string): RepositoryModel => ({
  name,
  tag,
  version: "1",
  path: `${name}.onnx`,
  config: null,
});

/** A repository whose list and faults the test sets. */
class Scene {
  listed: readonly RepositoryModel[] | Error;
  readonly faults = new Map<string, Error>();
  /** Faults of the cluster's state. */
  readonly refusals = new Map<string, Error>();
  readonly misshapen = new Map<string, Error>();
  readonly done: string[] = [];
  readonly watch: RepositoryWatch<string>;

  constructor(served: readonly RepositoryModel[]) {
    this.listed = served;
    this.watch = new RepositoryWatch(
      {
        list: async () => {
          if (this.listed instanceof Error) throw this.listed;
          const faulty = [...this.misshapen].map(([name, fault]) => ({ name, fault }));
          return Promise.resolve({ models: this.listed, faulty });
        },
        admit: async (name) => {
          const refusal = this.refusals.get(name);
          if (refusal !== undefined) throw refusal;
          return Promise.resolve();
        },
        read: ({ name, tag }) => {
          const fault = this.faults.get(name);
          if (fault === undefined) return Promise.resolve(`${name} ${tag}`);
          this.done.push(`${name} ${tag} fails`);
          return Promise.reject(fault);
        },
        serve: (_, file) => {
          this.done.push(file);
          return Promise.resolve();
        },
        remove: (name) => {
          const refusal = this.refusals.get(name);
          if (refusal !== undefined) return Promise.reject(refusal);
          this.done.push(`-${name}`);
          return Promise.resolve(name !== "mlp");
        },
        say: (event, text) => void this.done.push(`${event}: ${text}`),
      },
      served,
    );
  }

  async look(listed: readonly RepositoryModel[] | Error = this.listed): Promise<string[]> {
    this.listed = listed;
    await this.watch.look();
    return this.done.splice(0);
  }
}

test("new and changed models are served, and those that are gone are unloaded", async () => {
  const scene = new Scene([model("a", "1"), model("b", "1")]);
  expect(await scene.look()).toEqual([]);
  expect(await scene.look([model("a", "2"), model("c", "1")])).toEqual([
    ...["a 2", "c 1", "-b", "models-changed: b: gone from the repository, and unloaded"],
  ]);
  expect(await scene.look()).toEqual([]);
});

test("a repository that can't be listed changes nothing, and that is said once (WATCH-1)", async () => {
  const scene = new Scene([model("a", "1")]);
  const gone = new CommandError("s3://models: can't be reached", EXIT.unavailable);
  expect(await scene.look(gone)).toEqual([
    "models-unreachable: s3://models: can't be reached. Until it can be read again, what is served stays as it is.",
  ]);
  expect(await scene.look(new CommandError("s3://models: access denied"))).toEqual([]);
  expect(await scene.look([model("a", "1")])).toEqual(["models-changed: The models' repository can be read again."]);
  expect(await scene.look(gone)).toHaveLength(1);
});

test("a faulty model is tried again when it changes, one that can't be reached at each look (WATCH-2)", async () => {
  const scene = new Scene([]);
  scene.faults.set("a", new CommandError("no YAML"));
  expect(await scene.look([model("a", "1")])).toEqual(["a 1 fails", "models-faulty: a is not taken over: no YAML"]);
  expect(await scene.look()).toEqual([]);
  scene.faults.set("a", new CommandError("unreachable", EXIT.unavailable));
  expect(await scene.look([model("a", "2")])).toEqual(["a 2 fails", "models-faulty: a is not taken over: unreachable"]);
  expect(await scene.look()).toEqual(["a 2 fails"]);
  scene.faults.clear();
  expect(await scene.look()).toEqual(["a 2"]);
});

test("only models that it has brought are taken back (WATCH-3)", async () => {
  const scene = new Scene([model("mlp", "1")]);
  expect(await scene.look([model("a", "1")])).toEqual(["a 1", "-mlp"]); // and nothing is said
  expect(await scene.look()).toEqual([]);
});

test("a repository that has lost all its models at once unloads none of them (WATCH-1)", async () => {
  const scene = new Scene([model("a", "1"), model("b", "1")]);
  expect(await scene.look([])).toEqual([expect.stringMatching(/^models-unreachable: .* has no models any more/)]);
  expect(await scene.look([])).toEqual([]);
  expect(await scene.look([model("a", "1")])).toEqual([
    ...["models-changed: The models' repository can be read again.", "-b"],
    "models-changed: b: gone from the repository, and unloaded",
  ]);
});

test("a model that the cluster's state keeps away is tried at each look, and taken once that is over (WATCH-2)", async () => {
  const scene = new Scene([]);
  scene.refusals.set("a", new CommandError("served from elsewhere"));
  expect(await scene.look([model("a", "1")])).toEqual(["models-faulty: a is not taken over: served from elsewhere"]);
  expect(await scene.look()).toEqual([]);
  scene.refusals.clear();
  expect(await scene.look()).toEqual(["a 1"]);
});

test("one entry that is no model is said once, and keeps no other one away", async () => {
  const scene = new Scene([model("b", "1")]);
  scene.misshapen.set("b", new CommandError("no version"));
  expect(await scene.look([model("a", "1")])).toEqual(["models-faulty: b is not taken over: no version", "a 1"]);
  expect(await scene.look()).toEqual([]); // and what was served as b stays
});

test("a model that requests need stays although it is gone, and goes when they don't", async () => {
  const scene = new Scene([model("a", "1"), model("b", "1")]);
  scene.refusals.set("b", new CommandError("it is the default"));
  expect(await scene.look([model("a", "1")])).toEqual([
    "models-faulty: b is gone from the repository, and stays: it is the default",
  ]);
  expect(await scene.look()).toEqual([]);
  scene.refusals.clear();
  expect(await scene.look()).toEqual(["-b", "models-changed: b: gone from the repository, and unloaded"]);
});

test("nothing is said of what the end of the program broke off", async () => {
  const scene = new Scene([]);
  const ending = new AbortController();
  scene.faults.set("a", new Error("aborted"));
  scene.listed = [model("a", "1"), model("b", "1")];
  ending.abort();
  await scene.watch.look(ending.signal);
  expect(scene.done).toEqual(["a 1 fails"]);
});
