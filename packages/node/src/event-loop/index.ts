export { EventLoopTurns, type Turns } from "./event-loop-turns.ts";
