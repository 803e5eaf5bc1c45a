export * from "./bus.ts";
export { HostBus, type HostBusOptions } from "./host-bus.ts";
export { type LinkEnd, type LinkHandlers, type LinkMessage, type LinkSwitch } from "./link-routes.ts";
export { InMemoryBus, type InMemoryBusOptions, REQUESTS_MAX } from "./in-memory-bus.ts";
export { InMemoryNetwork, type InMemoryNetworkOptions, type Hop } from "./in-memory-network.ts";
export { type PingAnswer, type StatsAnswer, type Verb, answerServices } from "./services.ts";
export { covers, isHeader, isLiteral, isPattern, isSubject, matches } from "./subject.ts";
