/** Finds which of many models could be families: those with the same inputs and the same first nodes. */
import { nodeHashes } from "@tutti/onnx-tools";
import { type FamilyMember, mismatchOf } from "./family-spec.ts";

/** Least shared fraction of the larger model's nodes for a family to be likely. */
const LEAST_SHARED = 0.1;

interface Hashed {
  readonly member: FamilyMember;
  readonly hashes: readonly string[];
  readonly opsets: string;
}

/**
 * Groups of two or more models, each likely a family, in the order of their first members. Models without a match are
 * in no group.
 */
export function likelyFamilies(members: readonly FamilyMember[]): FamilyMember[][] {
  const groups: Hashed[][] = [];
  // Reads only models that could share a batch with another: most take inputs that no other model does.
  const company = members.filter((one) =>
    members.some((other) => other !== one && mismatchOf([one, other]) === undefined),
  );
  for (const [i, member] of company.entries()) {
    const hashed: Hashed = { member, ...nodeHashes(member.bytes, String(i)) };
    const group = groups.find(([first]) => belongs(first!, hashed));
    if (group === undefined) groups.push([hashed]);
    else group.push(hashed);
  }
  return groups.filter(({ length }) => length > 1).map((group) => group.map(({ member }) => member));
}

function belongs(first: Hashed, other: Hashed): boolean {
  if (first.opsets !== other.opsets || mismatchOf([first.member, other.member]) !== undefined) return false;
  const own = new Set(first.hashes);
  const shared = other.hashes.filter((hash) => own.has(hash)).length;
  return shared >= LEAST_SHARED * Math.max(first.hashes.length, other.hashes.length) && shared > 0;
}
