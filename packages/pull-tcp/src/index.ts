export * from "./tcp-data-client.ts";
export * from "./tcp-data-server.ts";
export { FrameAssembler } from "./frame-assembler.ts";
