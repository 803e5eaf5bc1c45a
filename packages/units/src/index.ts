export * from "./addresses.ts";
export * from "./assert.ts";
export * from "./bytes.ts";
export * from "./ids.ts";
export * from "./printable.ts";
export * from "./prng.ts";
export * from "./time.ts";
