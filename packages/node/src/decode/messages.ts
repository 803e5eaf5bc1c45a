import type { Body, Decoded } from "@tutti/ports/decode";
import type { Failed } from "./fair-workers.ts";

export type ToWorker = Body;
export type FromWorker = { readonly decoded: Decoded } | Failed;
