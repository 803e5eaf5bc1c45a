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
  readonly done: string[] = [];
  readonly watch: RepositoryWatch;

  constructor(served: readonly RepositoryModel[]) {
    this.listed = served;
    this.watch = new RepositoryWatch(
      {
        list: () => (this.listed instanceof Error ? Promise.reject(this.listed) : Promise.resolve(this.listed)),
        serve: ({ name, tag }) => {
          const fault = this.faults.get(name);
          this.done.push(`${name} ${tag}${fault === undefined ? "" : " fails"}`);
          return fault === undefined ? Promise.resolve() : Promise.reject(fault);
        },
        remove: (name) => {
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

test("what is new or changed is served, and what is gone is unloaded", async () => {
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
    "models-unreachable: s3://models: can't be reached. What is served stays as it is; tried again.",
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
  const scene = new Scene([]);
  scene.faults.set("mlp", new CommandError("served from elsewhere"));
  await scene.look([model("mlp", "1")]);
  expect(await scene.look([])).toEqual(["-mlp"]); // and nothing is said
  expect(await scene.look([])).toEqual([]);
});
