export { desiredModel } from "./desired-model.ts";
export { type Emulation, parseEmulation } from "./emulation.ts";
export { endReplaced, type FamilyFlags, familyWish, planFamilies, servedMembers } from "./family-load.ts";
export { familiesAsJson, renderFamilies } from "./family-table.ts";
export { listRepository, type LoadableModel, readModelFile } from "./model-repository.ts";
export { modelsAsJson, renderModels } from "./model-table.ts";
export { appName, massesAt, renderRunTimes, shownApps, summaryOf } from "./run-times-text.ts";
