export { desiredModel } from "./desired-model.ts";
export { type Emulation, parseEmulation } from "./emulation.ts";
export { endReplaced, type FamilyFlags, familyWish, planFamilies, servedMembers } from "./family-load.ts";
export { readLatencyPoints } from "./latency-points.ts";
export {
  listRepository,
  type LoadableModel,
  passedOverText,
  readModelFile,
  surveyRepository,
} from "./model-repository.ts";
export { isModelUrl } from "../sources/model-url.ts";
export { RemoteModels, type RepositoryListing, type RepositoryModel } from "../sources/remote-models.ts";
export { RepositoryWatch } from "./repository-watch.ts";
