/** Apart from the rest of the package, since it loads libvips, with the first picture. */
export * from "./media-file.ts";
export * from "./picture-file.ts";
export * from "./picture-head.ts";
export * from "./picture-process.ts";
