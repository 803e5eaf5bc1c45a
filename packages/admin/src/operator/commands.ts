/** The operator's commands; a console loads `index.ts` alone. */
export { logs } from "./logs.ts";
export { operate } from "./operation.ts";
export { refusals } from "./refusals.ts";
export { actors, status, top } from "./watching.ts";
