export * from "./tcp-data-client.ts";
export * from "./tcp-data-server.ts";
export { FrameAssembler } from "./frame-assembler.ts";
export * from "./unix-link.ts";
export { LinkAssembler, type LinkChannel, decodeLinkMessage, encodeLinkMessage } from "./link-codec.ts";
