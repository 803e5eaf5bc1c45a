export * from "./pull.ts";
export * from "./token.ts";
