export * from "./bounded-queue.ts";
export * from "./deadline-queue.ts";
export * from "./fair-queue.ts";
export * from "./fifo-table.ts";
export * from "./identity-index.ts";
export * from "./indexed-heap.ts";
export * from "./min-tree.ts";
