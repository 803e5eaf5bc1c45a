/** Which models the cluster is asked to serve, and how it is asked to share their requests. */
export * from "./families.ts";
export * from "./model-registry.ts";
export * from "./route-registry.ts";
export * from "./unloaded-models.ts";
