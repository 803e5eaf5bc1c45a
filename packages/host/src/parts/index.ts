export { hasTaskset, launchOf, type Machine, type Part, thisMachine, usableSizes } from "./part-launch.ts";
