export * from "./tcp-data-client.ts";
export * from "./tcp-data-server.ts";
export { FrameAssembler } from "./frame-assembler.ts";
export { proofOf } from "./hello-proof.ts";
export { ReceiveBudget } from "./receive-budget.ts";
export * from "./unix-link.ts";
export { LinkAssembler, type LinkChannel, decodeLinkMessage, encodeLinkMessage } from "./link-codec.ts";
