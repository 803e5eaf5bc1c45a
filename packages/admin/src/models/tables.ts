export { familiesAsJson, renderFamilies } from "./family-table.ts";
export { modelsAsJson, renderModels } from "./model-table.ts";
export { type ProfileSize, type ProfileTable, profileTables, renderProfiles, spreadText } from "./profile-tables.ts";
export { appName, massesAt, renderRunTimes, shownApps, summaryOf } from "./run-times-text.ts";
