/** Exports of the simulator's commands for test suites. */
export * from "./scenario-family.ts";
export * from "./scenario-file.ts";
export { FamilyFile } from "./family-file.ts";
export { LineFile } from "./line-file.ts";
export { LocatedYaml, type Problem, type YamlPath } from "./located-yaml.ts";
export { noiseLines, type NoiseRecording, readNoise, type ScopedStall } from "./noise-file.ts";
export { parseZoo } from "./model-zoo.ts";
export { type LatencyEntry, lineOf, profileOf } from "./scenario-models.ts";
export { SCENARIO_SCHEMA, schemaCheck, type SchemaCheck } from "./scenario-schema.ts";
export { fromPortable, type PortableScenario, toPortable } from "./portable-scenario.ts";
export {
  amount,
  checkFit,
  checkPolicy,
  choiceOf,
  type ScenarioFlags,
  scenarioFrom,
  whole,
} from "./scenario-options.ts";
