export * from "./fnv1a.ts";
export * from "./frame.ts";
export * from "./half.ts";
export * from "./infer-forms.ts";
export { fromJson, pack, toJson, unpack } from "./msgpack.ts";
export * from "./rows.ts";
export * from "./tensor-message.ts";
export { bytesFromJson, jsonFromBytes } from "./elements.ts";
export * from "./data-frames.ts";
