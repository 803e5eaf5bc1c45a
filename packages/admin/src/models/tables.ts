export { familiesAsJson, renderFamilies } from "./family-table.ts";
export { modelsAsJson, renderModels } from "./model-table.ts";
export { appName, massesAt, renderRunTimes, shownApps, summaryOf } from "./run-times-text.ts";
