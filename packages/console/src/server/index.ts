export { ArrivalRecord } from "./arrival-record.ts";
export { EndedBatches } from "./ended-batches.ts";
export { byRate, feedPlan, feedState, modelFigures } from "./feed-state.ts";
export { LiveFeed } from "./live-feed.ts";
export { ModelWindows } from "./model-windows.ts";
export { RecentRefusals } from "./recent-refusals.ts";
export { REPLAY_POLICIES, Replays, replayWish } from "./replays.ts";
export { type OperatorPorts, Restarts } from "./restarts.ts";
export { Traces } from "./traces.ts";
