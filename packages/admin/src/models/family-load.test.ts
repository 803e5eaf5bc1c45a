import { describeModel, draftModel, generateMlp } from "@tutti/onnx-tools";
import type { ModelSpec } from "@tutti/protocol";
import { micros } from "@tutti/units";
import { expect, test } from "vitest";
import { ModelRegistry } from "@tutti/client/registries";
import { InMemoryStore } from "@tutti/ports/store";
import { endReplaced, familyWish, planFamilies, servedMembers } from "./family-load.ts";
import { familiesAsJson, renderFamilies } from "./family-table.ts";
import type { LoadableModel } from "./model-repository.ts";

const loadable = (name: string, classes: number, seed = 7): LoadableModel => {
  const bytes = generateMlp({ seed, widths: [64, 512, 512, classes] });
  const { sha256: _, bytes: __, ...model } = draftModel({ slo: "2s", name }, describeModel(bytes));
  return { model, bytes };
};
const planned = async (models: readonly LoadableModel[], flags: Parameters<typeof familyWish>[0], taken = "") => {
  const said: string[] = [];
  const isTaken = (name: string): Promise<boolean> => Promise.resolve(name === taken);
  const { families, alone } = await planFamilies(models, [], {
    ...{ wish: familyWish(flags), say: (text) => void said.push(text), isTaken },
  });
  return {
    families: families.map(({ model }) => [model.name, model.family!.variants.map(({ name }) => name)]),
    alone: alone.map(({ model }) => model.name),
    said,
  };
};
const HEADS = [loadable("head-a", 3), loadable("stranger", 3, 8), loadable("head-b", 5)];

test("flags that contradict one another or name nothing are wrong usage", () => {
  expect(familyWish({})).toEqual({ when: "auto", name: undefined, served: [] });
  expect(familyWish({ family: "f", with: "a, b" })).toEqual({ when: "auto", name: "f", served: ["a", "b"] });
  expect(() => familyWish({ families: "perhaps" })).toThrow("--families perhaps: take one of auto, always, never");
  expect(() => familyWish({ family: "a.b" })).toThrow(/^--family a\.b: letters/);
  expect(() => familyWish({ with: "a" })).toThrow(/^--with takes models into a --family/);
  expect(() => familyWish({ family: "f", families: "never" })).toThrow(/never forbids/);
});

test("of models that are loaded together those that begin alike become a family, named after what their names begin with", async () => {
  const { families, alone, said } = await planned(HEADS, { families: "always" });
  expect(families).toEqual([["head-family", ["head-a", "head-b"]]]);
  expect(alone).toEqual(["stranger"]);
  expect(said).toEqual([expect.stringMatching(/^head-family: head-a, head-b as one family: .*away at most$/)]);
});

test("nothing is compared where families are forbidden, and nothing is replaced that has the family's name", async () => {
  expect(await planned(HEADS, { families: "never" })).toMatchObject({ families: [], said: [] });
  const { families, alone, said } = await planned(HEADS, { families: "always" }, "head-family");
  expect([families, alone]).toEqual([[], ["head-a", "stranger", "head-b"]]);
  expect(said).toEqual([expect.stringContaining("each served for itself, since a model is called head-family")]);
});

test("a family that was asked for by name and can't be is a failure, with the reason", async () => {
  await expect(planned(HEADS, { family: "all" })).rejects.toThrow(
    "all can't be served as a family: they have no node in common",
  );
  await expect(planned([HEADS[0]!], { family: "all" })).rejects.toThrow(/at least two models/);
});

test("a served family is extended: its models come out of its file, and with another one they are a new family that takes its place", async () => {
  const [a, b, c] = [loadable("head-a", 3), loadable("head-b", 5), loadable("head-c", 9)];
  const store = new InMemoryStore();
  const registry = new ModelRegistry(store);
  const plan = (fresh: readonly LoadableModel[], served: Awaited<ReturnType<typeof servedMembers>>, family: string) =>
    planFamilies(fresh, served, {
      wish: familyWish({ family, families: "always" }),
      ...{ say: () => undefined, isTaken: () => Promise.resolve(false) },
    });
  const publish = async ({ families: [made] }: Awaited<ReturnType<typeof plan>>) =>
    registry.publish({ ...made!.model, slo: micros(20_000) }, { model: made!.bytes });
  await publish(await plan([a, b], [], "heads"));
  await registry.publish({ ...HEADS[1]!.model, slo: micros(20_000) }, { model: HEADS[1]!.bytes! });

  const served = await servedMembers(store, registry, familyWish({ family: "more", with: "heads" }));
  expect(served.map(({ model }) => [model.name, model.outputs[0]!.dims, model.inputs.length])).toEqual([
    ["head-a", ["batch", 3], 1],
    ["head-b", ["batch", 5], 1],
  ]);
  const spec = await publish(await plan([c], served, "more"));
  expect(spec.family).toMatchObject({
    prefix: { nodes: 4 },
    variants: [{ name: "head-c" }, { name: "head-a" }, { name: "head-b" }],
  });
  expect(await endReplaced(registry, { spec, status: undefined })).toEqual(["heads"]);
  expect((await registry.list()).map((listed) => listed.spec.name)).toEqual(["more", "stranger"]);
});

test("taking in a stranger, a variant, or a family under its own name is refused with what to do instead", async () => {
  const store = new InMemoryStore();
  const registry = new ModelRegistry(store);
  const { families } = await planFamilies([HEADS[0]!, HEADS[2]!], [], {
    wish: familyWish({ family: "heads", families: "always" }),
    ...{ say: () => undefined, isTaken: () => Promise.resolve(false) },
  });
  await registry.publish(families[0]!.model, { model: families[0]!.bytes });
  const taking = (served: string, family: string) =>
    servedMembers(store, registry, familyWish({ family, with: served }));
  await expect(taking("nobody", "more")).rejects.toThrow('--with nobody: no model named "nobody" is loaded');
  await expect(taking("haeds", "more")).rejects.toThrow('did you mean "heads"?');
  await expect(taking("haed-a", "more")).rejects.toThrow('did you mean "head-a"?');
  await expect(taking("head-a", "more")).rejects.toThrow("so take all of it: --with heads");
  await expect(taking("heads", "heads")).rejects.toThrow("give the new family another name");
});

test("tutti models --families says what each model shares, and what all of it comes to", () => {
  const slo = micros(30_000);
  const part = { offset: 0, bytes: 1_000_000, nodes: 1, inputs: [] };
  const spec = {
    ...{ name: "heads", number: 1, version: "1", slo, file: { object: "o", sha256: "s", bytes: 40_000_000 } },
    family: {
      prefix: { ...part, nodes: 9, bytes: 38_000_000, cut: [{ name: "h", batchAxis: 0 }] },
      variants: ["a", "b"].map((name) => ({
        ...{ name, version: "1", slo, outputs: [], suffix: { ...part, feeds: [] } },
        whole: { bytes: 39_000_000, sha256: "x", nodes: 10 },
      })),
    },
  } as unknown as ModelSpec;
  const listed = [{ spec, status: undefined }];
  expect(renderFamilies(listed).split("\n").slice(1)).toEqual([
    expect.stringMatching(/^heads +a +1 +30 ?ms +waiting +10 +9 +39\.0 MB +1\.0 MB$/),
    expect.stringMatching(/^heads +b /),
    "heads: 40.0 MB instead of 78.0 MB, the common prefix once",
  ]);
  expect(familiesAsJson(listed)).toMatchObject([
    { name: "heads", bytes: { separate: 78_000_000, family: 40_000_000 }, models: [{ name: "a", shared: 9 }, {}] },
  ]);
});
