export { doctor } from "./doctor.ts";
export { type Parts, mismatchesOf, readParts } from "./parts.ts";
