export type PolicyName = "deferred" | "eager";
