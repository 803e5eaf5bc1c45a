export type PolicyName = "adaptive" | "deferred" | "eager";
