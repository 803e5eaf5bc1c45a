/** Files for tests of several packages. */
export * from "./scanned-jpeg.ts";
