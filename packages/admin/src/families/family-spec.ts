/** Turns models and the way they are cut into one model that the cluster serves, and its one file. */
import type { DesiredModel } from "@tutti/client/registries";
import { type FamilySplit, joinParts } from "@tutti/onnx-tools";
import {
  type ModelSpec,
  type PartSpec,
  type VariantSpec,
  VARIANTS_MAX,
  alignTo8,
  isName,
  variantInput,
  variantView,
} from "@tutti/protocol";
import { type Micros, micros } from "@tutti/units";

/** A model that could be served as part of a family. */
export interface FamilyMember {
  readonly model: DesiredModel;
  readonly bytes: Uint8Array;
}

/**
 * Restores the member models of a served family. Each is as it was before the merge, except that its largest batch and
 * its patience are the least of all members.
 *
 * @param bytes - the family's file
 * @throws {ModelFileError} a part of `bytes` is no model
 */
export function membersOf(spec: ModelSpec, bytes: Uint8Array): FamilyMember[] {
  const { variants, prefix } = spec.family!;
  const partOf = ({ offset, bytes: length }: PartSpec): Uint8Array => bytes.subarray(offset, offset + length);
  return variants.map(({ suffix }, i) => {
    const { number: _, file: __, samples: ___, variant: ____, ...model } = variantView(spec, i);
    return { model, bytes: joinParts(partOf(prefix!), { bytes: partOf(suffix!), feeds: suffix!.feeds }) };
  });
}

/** A family's one file, and where the prefix and each suffix lie in it. */
export interface FamilyFile {
  readonly bytes: Uint8Array;
  readonly prefix: Pick<PartSpec, "offset" | "bytes">;
  readonly suffixes: readonly Pick<PartSpec, "offset" | "bytes">[];
}

/** Writes the prefix and the suffixes one after the other, each at a multiple of 8. */
export function familyFile({ prefix, suffixes }: FamilySplit): FamilyFile {
  const places: { offset: number; bytes: number }[] = [];
  let length = 0;
  for (const { bytes } of [prefix, ...suffixes]) {
    places.push({ offset: length, bytes: bytes.byteLength });
    length += alignTo8(bytes.byteLength);
  }
  const file = new Uint8Array(length);
  [prefix, ...suffixes].forEach(({ bytes }, i) => file.set(bytes, places[i]!.offset));
  return { bytes: file, prefix: places[0]!, suffixes: places.slice(1) };
}

/** Spec fields in which all members must agree, since their rows share batches. */
const SHARED = ["engine", "inputs", "constants", "axes", "made", "buckets", "shares", "priorityFloor"] as const;

/** The reason why these models can't share a batch, whatever they compute; undefined if they can. */
export function mismatchOf(members: readonly FamilyMember[]): string | undefined {
  const [first, ...others] = members;
  if (first === undefined || others.length === 0) return "one model alone shares nothing";
  if (members.length > VARIANTS_MAX) return `${members.length} models, at most ${VARIANTS_MAX} are one family`;
  const names = members.map(({ model }) => model.name);
  const twice = names.find((name, i) => names.indexOf(name) < i);
  if (twice !== undefined) return `${twice} is there twice`;
  const version = names.find((name) => !isName(name));
  if (version !== undefined) return `${version} is one version of a model, which a family can't stand for`;
  const given = members.find(({ model }) => model.profile !== undefined);
  if (given !== undefined) return `the latencies of ${given.model.name} are given, those of a family are measured`;
  if (first.model.engine !== "onnx") return `${first.model.name} is no ONNX model`;
  for (const { model } of others) {
    const field = SHARED.find((key) => JSON.stringify(model[key]) !== JSON.stringify(first.model[key]));
    if (field !== undefined) return `${first.model.name} and ${model.name} differ in their ${field}`;
  }
  return undefined;
}

export interface FamilyParts {
  readonly name: string;
  readonly members: readonly FamilyMember[];
  readonly split: FamilySplit;
  readonly file: FamilyFile;
  /** Batch axis of each value that crosses the cut, by its name. */
  readonly axes: ReadonlyMap<string, number>;
  readonly sha256: (bytes: Uint8Array) => string;
}

/**
 * The family as the model that the cluster is asked to serve. Its SLO, largest batch and patience are the least of its
 * members'; requests have their own deadlines anyway.
 */
export function familySpec({ name, members, split, file, axes, sha256 }: FamilyParts): DesiredModel {
  const models = members.map(({ model }) => model);
  const first = models[0]!;
  const least = (values: readonly number[]): number => values.reduce((a, b) => Math.min(a, b));
  const deadlines = models.map(({ runDeadline }) => runDeadline).filter((deadline) => deadline !== undefined);
  const { prefix, suffixes } = split;
  const scales = models.map(({ scaleToZero }) => scaleToZero).filter((scale) => scale !== undefined);
  const {
    profile: _,
    presentation: __,
    cuts: ___,
    version: ____,
    memory: _____,
    runDeadline: ______,
    ...others
  } = first;
  const { scaleToZero: _______, independentRows: ________, ...kept } = others;
  return {
    ...kept,
    name,
    slo: micros(least(models.map(({ slo }) => slo))),
    batchSizeMax: least(models.map(({ batchSizeMax }) => batchSizeMax)),
    patience: least(models.map(({ patience }) => patience)),
    ...(deadlines.length === models.length && { runDeadline: Math.max(...deadlines) as Micros }),
    ...(models.every(({ independentRows }) => independentRows === true) && { independentRows: true }),
    // A member that is always to be served keeps the family.
    ...(scales.length === models.length && {
      scaleToZero: {
        idle: Math.max(...scales.map(({ idle }) => idle)) as Micros,
        coldStart: Math.max(...scales.map(({ coldStart }) => coldStart)) as Micros,
      },
    }),
    inputs: [...first.inputs, variantInput()],
    outputs: [],
    family: {
      prefix: {
        ...file.prefix,
        nodes: prefix.nodes,
        inputs: prefix.inputs,
        cut: prefix.cut.map((value) => ({ name: value, batchAxis: axes.get(value)! })),
      },
      variants: members.map(({ model, bytes }, i): VariantSpec => {
        const { feeds, inputs } = suffixes[i]!;
        const { all, shared } = split.nodes[i]!;
        return {
          name: model.name,
          version: model.version ?? "1",
          slo: model.slo,
          outputs: model.outputs,
          ...(model.cuts !== undefined && { cuts: model.cuts }),
          ...(model.presentation !== undefined && { presentation: model.presentation }),
          whole: { bytes: bytes.byteLength, sha256: sha256(bytes), nodes: all },
          suffix: { ...file.suffixes[i]!, nodes: all - shared, inputs, feeds },
        };
      }),
    },
  };
}
