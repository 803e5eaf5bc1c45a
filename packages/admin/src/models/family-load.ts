/**
 * Decides which models of one load become families, and what changes for models that are already served
 * (docs/families.md).
 */
import { type ListedModel, type ModelRegistry, askedNames, modelFile } from "@tutti/client/registries";
import type { FamilyMember, MadeFamily } from "../families/index.ts";
import { NAME_LENGTH_MAX, isName, noModelError } from "@tutti/protocol";
import type { Store } from "@tutti/ports/store";
import { CommandError, usageError } from "../failure.ts";
import type { LoadableModel } from "./model-repository.ts";

/** `auto`: where it saves memory or accelerators; `always`: wherever models can be served together; `never`. */
export type When = "auto" | "always" | "never";
const WHEN: readonly When[] = ["auto", "always", "never"];

export interface FamilyFlags {
  readonly families?: string;
  readonly family?: string;
  readonly with?: string;
}

export interface FamilyWish {
  readonly when: When;
  /** Name of the one family for all models; undefined: families are found by prefix. */
  readonly name: string | undefined;
  /** Served models that join the family. */
  readonly served: readonly string[];
}

/** @throws {CommandError} a usage error naming the flag */
export function familyWish({ families = "auto", family, with: served }: FamilyFlags): FamilyWish {
  const when = WHEN.find((known) => known === families);
  if (when === undefined) throw usageError(`--families ${families}: take one of ${WHEN.join(", ")}`);
  if (family !== undefined && !isName(family))
    throw usageError(`--family ${family}: letters, digits, "-" and "_", at most ${NAME_LENGTH_MAX}`);
  if (served !== undefined && family === undefined) throw usageError("--with takes models into a --family: name it");
  if (family !== undefined && when === "never") throw usageError("--family asks for what --families never forbids");
  return { when, name: family, served: served === undefined ? [] : served.split(",").map((name) => name.trim()) };
}

export interface LoadPlan {
  readonly families: readonly MadeFamily[];
  /** Models that are served separately. */
  readonly alone: readonly LoadableModel[];
}

/**
 * Looks for families and tries them on this machine.
 *
 * @param say - receives the result for each group, in words
 * @throws {CommandError} the family that was asked for by name is impossible, or does not pay off
 */
export async function planFamilies(
  loadable: readonly LoadableModel[],
  served: readonly FamilyMember[],
  {
    wish,
    say,
    isTaken,
  }: {
    readonly wish: FamilyWish;
    readonly say: (text: string) => void;
    /** Whether a model of that name is served that is no family: a family must not replace it. */
    readonly isTaken: (name: string) => Promise<boolean>;
  },
): Promise<LoadPlan> {
  const fresh = loadable.filter(isEligible).map(({ model, bytes }) => ({ model, bytes: bytes! }));
  if (wish.when === "never" || fresh.length + served.length < 2) {
    if (wish.name === undefined) return { families: [], alone: loadable };
    throw new CommandError(`a family has at least two models with files and without given latencies or samples`);
  }
  // Most loads are of one model: import the runtime that tries families only here.
  const { FamilyRefusal, likelyFamilies, makeFamily } = await import("../families/index.ts");
  const groups = wish.name === undefined ? likelyFamilies(fresh) : [[...fresh, ...served]];
  const families: MadeFamily[] = [];
  for (const members of groups) {
    const name = wish.name ?? familyName(members);
    const refuse = (reason: string): void => {
      const names = members.map(({ model }) => model.name).join(", ");
      if (wish.name !== undefined) throw new CommandError(`${name} can't be served as a family: ${reason}`);
      say(`${names}: each served for itself, since ${reason}`);
    };
    if (await isTaken(name)) {
      refuse(`a model is called ${name}: give another name with --family`);
      continue;
    }
    try {
      const made = await makeFamily({ name, members });
      if (made.profit.pays || wish.when === "always") {
        families.push(made);
        say(`${name}: ${members.map(({ model }) => model.name).join(", ")} as one family: ${savedText(made)}`);
      } else refuse(`${made.profit.reason} (--families always does it all the same)`);
    } catch (error) {
      if (!(error instanceof FamilyRefusal)) throw error;
      refuse(error.message);
    }
  }
  const taken = new Set(families.flatMap(({ model }) => model.family!.variants.map(({ name }) => name)));
  return { families, alone: loadable.filter(({ model }) => !taken.has(model.name)) };
}

/** A given profile or given samples belong to one model alone, so such a model can't join a family. */
const isEligible = ({ model, bytes, samples }: LoadableModel): boolean =>
  bytes !== undefined && samples === undefined && model.profile === undefined;

const savedText = ({ profit, difference }: MadeFamily): string =>
  `${profit.pays ? profit.reason : `forced, though ${profit.reason}`}; its outputs are ${difference.toPrecision(2)} away at most`;

/** Names a family after its members' common prefix, or after the first member. */
function familyName(members: readonly FamilyMember[]): string {
  const [first = "", ...others] = members.map(({ model }) => model.name);
  let length = 0;
  while (length < first.length && others.every((name) => name[length] === first[length])) length++;
  const common = first.slice(0, length).replace(/[-_]+$/, "");
  const name = `${isName(common) ? common : first}-family`.slice(-NAME_LENGTH_MAX);
  return isName(name) ? name : first.slice(0, NAME_LENGTH_MAX);
}

/**
 * Reads served models, and the members of served families, as members of a new family.
 *
 * @throws {CommandError} one of them isn't served
 */
export async function servedMembers(store: Store, registry: ModelRegistry, wish: FamilyWish): Promise<FamilyMember[]> {
  const members: FamilyMember[] = [];
  for (const name of wish.served) {
    const spec = await registry.get(name);
    if (spec === undefined) throw new CommandError(await missingText(registry, name));
    if (spec.family === undefined) {
      const { number: _, file: __, samples: ___, ...model } = spec;
      members.push({ model, bytes: await modelFile(store, spec) });
      continue;
    }
    if (name === wish.name)
      throw usageError(
        `--family ${name} --with ${name}: give the new family another name; until it serves, ${name} does`,
      );
    const { membersOf } = await import("../families/index.ts");
    members.push(...membersOf(spec, await modelFile(store, spec)));
  }
  return members;
}

async function missingText(registry: ModelRegistry, name: string): Promise<string> {
  const listed = await registry.list();
  const family = listed.find(({ spec }) => spec.family?.variants.some((variant) => variant.name === name));
  if (family === undefined) return `--with ${name}: ${noModelError(name, askedNames(listed)).message}`;
  return `--with ${name}: it is served by a family, so take all of it: --with ${family.spec.name}`;
}

/** Grace period: an ingress may have accepted a request just before it learnt of the family. */
const HEARD_MS = 1_000;

/**
 * Removes the models and families that a served family replaces, once their requests are answered.
 *
 * @returns their names
 */
export async function endReplaced(registry: ModelRegistry, { spec }: ListedModel): Promise<string[]> {
  const variants = new Map(spec.family?.variants.map(({ name, slo }) => [name, slo]));
  const replaced = (await registry.list()).filter(({ spec: own }) => {
    const names = own.family?.variants.map(({ name }) => name) ?? [own.name];
    return own.number < spec.number && names.every((name) => variants.has(name));
  });
  if (replaced.length === 0) return [];
  const longestMs = Math.max(...variants.values(), ...replaced.map(({ spec: own }) => own.slo)) / 1_000;
  await new Promise((resolve) => setTimeout(resolve, longestMs + HEARD_MS));
  const names = replaced.map(({ spec: own }) => own.name);
  for (const name of names) await registry.remove(name);
  return names;
}
