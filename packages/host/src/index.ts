export { withCurrentNames } from "./renamed-flags.ts";
export { FLAGS } from "./role/role-flags.ts";
