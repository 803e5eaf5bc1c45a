/**
 * Converts a pipeline's document (YAML, already parsed) into a `PipelineSpec`. It reports all mistakes at once, each
 * with what to do about it.
 */
import {
  type DescribedTensor,
  NAME_LENGTH_MAX,
  RANK_MAX,
  SLO_US_MAX,
  TENSORS_MAX,
  TENSOR_NAME_BYTES_MAX,
  isDataType,
  isName,
} from "@tutti/protocol";
import { QueryShapeError } from "@tutti/planning/split";
import { type Micros, formatDuration, micros, parseDuration } from "@tutti/units";
import { PIPELINE_STAGES_MAX, type PipelineSpec, type StageSpec, checkGraph } from "./pipeline-spec.ts";

export class PipelineDeclarationError extends Error {
  override readonly name = "PipelineDeclarationError";
  readonly problems: readonly string[];

  constructor(where: string, problems: readonly string[]) {
    super(`${where}: ${problems.join("; ")}`);
    this.problems = problems;
  }
}

const KEYS = ["name", "version", "slo", "split", "stages", "finish", "inputs", "outputs"];
const TENSOR_KEYS = ["name", "datatype", "shape"];
const STAGE_KEYS = ["name", "model", "after", "before"];
/** A module below the folder of the declaration, and never out of it. */
const FUNCTION =
  /^\.\/(?:[A-Za-z0-9_-][A-Za-z0-9._-]*\/)*[A-Za-z0-9_-][A-Za-z0-9._-]*\.(?:ts|mts|js|mjs)#[A-Za-z_$][\w$]*$/;
const VERSION = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/** @throws {PipelineDeclarationError} naming `where` and everything that is wrong */
export function parsePipeline(document: unknown, where: string): PipelineSpec {
  const problems: string[] = [];
  const complain = (text: string): void => void problems.push(text);
  const fields = recordOf(document, "a pipeline", KEYS, complain);
  const name = nameOf(fields["name"], "name", complain);
  const version = fields["version"] === undefined ? "1" : String(fields["version"]);
  if (!VERSION.test(version)) complain(`version is letters, digits, ".", "-" and "_", such as 1 or 2.3`);
  const slo = sloOf(fields["slo"], complain);
  const split = fields["split"] ?? "planned";
  if (split !== "planned" && split !== "even")
    complain("split is planned (by profiles and fan-outs, the default) or even");
  const stages = stagesOf(fields["stages"], complain);
  const finish = functionOf(fields["finish"], "finish", complain);
  const tensors = {
    ...(fields["inputs"] !== undefined && { inputs: tensorsOf(fields["inputs"], "inputs", complain) }),
    ...(fields["outputs"] !== undefined && { outputs: tensorsOf(fields["outputs"], "outputs", complain) }),
  };
  if (problems.length === 0) checkStages(stages, complain);
  if (problems.length > 0) throw new PipelineDeclarationError(where, problems);
  return { name, version, slo, split: split === "even" ? "even" : "planned", stages, finish, ...tensors };
}

type Complain = (text: string) => void;

function recordOf(value: unknown, what: string, keys: readonly string[], complain: Complain): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    complain(`${what} is a mapping with the keys ${keys.join(", ")}`);
    return {};
  }
  for (const key of Object.keys(value))
    if (!keys.includes(key)) complain(`${what} has no key "${key.slice(0, 80)}": its keys are ${keys.join(", ")}`);
  return value as Record<string, unknown>;
}

function nameOf(value: unknown, what: string, complain: Complain): string {
  if (typeof value === "string" && isName(value)) return value;
  complain(`${what} is letters, digits, "-" and "_", at most ${NAME_LENGTH_MAX} of them`);
  return "";
}

function sloOf(value: unknown, complain: Complain): Micros {
  const slo = typeof value === "string" ? parseDuration(value) : undefined;
  if (slo !== undefined && slo > 0 && slo <= SLO_US_MAX) return slo;
  complain(`slo is the time for the whole, such as 400ms or 1.5s, at most ${formatDuration(micros(SLO_US_MAX))}`);
  return micros(0);
}

function functionOf(value: unknown, what: string, complain: Complain): string {
  if (typeof value === "string" && FUNCTION.test(value) && !value.includes("..")) return value;
  complain(
    `${what} names a function of a module beside this file: ./steps.ts#${what === "finish" ? "toAnswer" : "toRequests"}`,
  );
  return "";
}

function stagesOf(value: unknown, complain: Complain): StageSpec[] {
  if (!Array.isArray(value) || value.length === 0 || value.length > PIPELINE_STAGES_MAX) {
    complain(`stages is a list of 1 to ${PIPELINE_STAGES_MAX} (PIPELINE_STAGES_MAX)`);
    return [];
  }
  return value.map((one: unknown, i) => {
    const fields = recordOf(one, `stage ${i + 1}`, STAGE_KEYS, complain);
    const name = nameOf(fields["name"], `the name of stage ${i + 1}`, complain);
    const what = name === "" ? `stage ${i + 1}` : `stage ${name}`;
    const after = fields["after"] ?? [];
    const isList = Array.isArray(after) && after.every((from) => typeof from === "string");
    if (!isList) complain(`after of ${what} is a list of stages: after: [detect]`);
    return {
      name,
      model: nameOf(fields["model"], `model of ${what}`, complain),
      after: isList ? after : [],
      before: functionOf(fields["before"], `before of ${what}`, complain),
    };
  });
}

function tensorsOf(value: unknown, what: string, complain: Complain): DescribedTensor[] {
  if (!Array.isArray(value) || value.length > TENSORS_MAX) {
    complain(`${what} is a list of at most ${TENSORS_MAX} tensors (TENSORS_MAX)`);
    return [];
  }
  return value.map((one: unknown, i) => {
    const where = `${what}[${i}]`;
    const { name, datatype, shape } = recordOf(one, where, TENSOR_KEYS, complain);
    const isNamed = typeof name === "string" && name !== "" && name.length <= TENSOR_NAME_BYTES_MAX;
    if (!isNamed) complain(`${where}.name is a text of 1 to ${TENSOR_NAME_BYTES_MAX} characters`);
    const isTyped = typeof datatype === "string" && (isDataType(datatype) || datatype === "BYTES");
    if (!isTyped) complain(`${where}.datatype is a type of the protocol, such as BYTES, UINT8 or FP32`);
    const isSize = (size: unknown): boolean => size === -1 || (typeof size === "number" && size >>> 0 === size);
    const isShaped = Array.isArray(shape) && shape.length <= RANK_MAX && shape.every(isSize);
    if (!isShaped) complain(`${where}.shape is a list of at most ${RANK_MAX} sizes, such as [-1, 4]; -1: any`);
    return {
      name: isNamed ? name : "",
      datatype: isTyped ? datatype : "",
      shape: isShaped ? (shape as number[]) : [],
    };
  });
}

function checkStages(stages: readonly StageSpec[], complain: Complain): void {
  const names = new Set<string>();
  for (const { name } of stages) {
    if (names.has(name)) complain(`two stages are called ${name}: give each a name of its own`);
    names.add(name);
  }
  for (const { name, after } of stages) {
    for (const from of after) if (!names.has(from)) complain(`stage ${name} comes after "${from}", which is no stage`);
    if (new Set(after).size !== after.length) complain(`stage ${name} names a stage twice in after`);
  }
  const roots = stages.filter(({ after }) => after.length === 0);
  if (roots.length > 1)
    complain(
      `${roots.map(({ name }) => name).join(" and ")} come after no stage: a pipeline begins with one, so say after: [${roots[0]!.name}]`,
    );
  try {
    checkGraph({ stages });
  } catch (error) {
    if (!(error instanceof QueryShapeError)) throw error;
    if (roots.length <= 1)
      complain(`${error.message}; branches that part have to meet again in one stage, or not at all`);
  }
}
